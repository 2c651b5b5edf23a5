/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A flow that is moved to another clock stays sound and as stale as it was, its ticks are as old by the
 * other clock, and it is the same when it is moved back. Ticks that would become 0, which is none, are
 * left out. (How a shift in units becomes ticks is tested: tests/moved.rs. CBMC needs too long for such
 * products.)
 */
#include "rebase.h"
#include "state.h"

/* What clocks show is less, in ns. */
#define AGES (1ULL << 62)

static struct uc_shift negative(struct uc_shift shift)
{
	struct uc_shift back = {-shift.ns, -shift.rtt_ticks, -shift.idle_ticks, -shift.us};

	return back;
}

int main(void)
{
	struct uc_flow flow = sound_flow(), moved = flow;
	struct uc_annex same = annex;
	__u64 now_ns = any_long();
	struct uc_shift shift = {any_long(), any_word(), any_word(), any_word()};

	assume(now_ns < AGES && flow.seen_ns < AGES);
	assume(now_ns + shift.ns < AGES && flow.seen_ns + shift.ns < AGES);
	uc_rebase(&moved, &annex, shift);
	assume(!flow.timed_tick || flow.timed_tick + shift.rtt_ticks);
	assume(!flow.sent_tick || flow.sent_tick + shift.idle_ticks);
	prove("the flow stays sound", is_sound(&moved));
	prove("it is as stale as before",
	      uc_is_stale(&moved, now_ns + shift.ns) == uc_is_stale(&flow, now_ns));
	prove("a tick is as old as before",
	      !flow.sent_tick || (__u32)now_ns + shift.idle_ticks - moved.sent_tick ==
					 (__u32)now_ns - flow.sent_tick);
	uc_rebase(&moved, &annex, negative(shift));
	prove("moved back, it is the flow that it was",
	      moved.seen_ns == flow.seen_ns && moved.timed_tick == flow.timed_tick &&
		      moved.sent_tick == flow.sent_tick);
	for (int i = 0; i < UC_TIMERS; i++)
		prove("so are its timers",
		      annex.delay.timers[i].at_us == same.delay.timers[i].at_us);
	return 0;
}
