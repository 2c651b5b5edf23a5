/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A flow on another clock: all moments that a flow and its annex store move at once. By the new
 * clock, each moment then lies as long ago as it did by the old one.
 */
#ifndef UC_REBASE_H
#define UC_REBASE_H

#include "flow.h"
#include "since.h"

/* The unit by which moments move: a whole number of all ticks (since.h) and of microseconds. */
#define UC_REBASE_NS 128000

/* By how much the moments of a flow move, each in its own unit. */
struct uc_shift {
	__u64 ns;
	__u32 rtt_ticks;
	__u32 idle_ticks;
	__u32 us;
};

/* Returns the shift by `units` of UC_REBASE_NS. */
static __always_inline struct uc_shift uc_shift_by(__s64 units)
{
	struct uc_shift shift = {
		.ns = (__u64)units * UC_REBASE_NS,
		.rtt_ticks = (__u32)units * (UC_REBASE_NS >> UC_RTT_TICK_SHIFT),
		.idle_ticks = (__u32)units * (UC_REBASE_NS >> UC_IDLE_TICK_SHIFT),
		.us = (__u32)units * (UC_REBASE_NS / 1000),
	};

	return shift;
}

/* Moves a tick by `ticks`; a tick of 0 means "none" and stays. */
static __always_inline __u32 uc_move_tick(__u32 tick, __u32 ticks)
{
	__u32 moved = tick + ticks;

	return tick ? moved | !moved : 0;
}

/* Moves all moments of a flow. `shift`: what the new clock shows more than the old one at the same
 * time. `annex`: the flow's, or its own memory if it has none. A law from outside the tree that
 * stores moments in a room of its own keeps those of the old clock. */
static __always_inline void uc_rebase(struct uc_flow *flow, struct uc_annex *annex,
				      struct uc_shift shift)
{
	flow->seen_ns += shift.ns;
	flow->timed_tick = uc_move_tick(flow->timed_tick, shift.rtt_ticks);
	flow->sent_tick = uc_move_tick(flow->sent_tick, shift.idle_ticks);
	if (!uc_law_has(flow->policy.law, UC_TIMED))
		return;
	for (int i = 0; i < UC_TIMERS; i++)
		annex->delay.timers[i].at_us += shift.us;
}

#endif
