/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * PVTCP (Cheng, Wang and Lau, "PVTCP: Towards Practical and Effective Congestion Control in
 * Virtualized Datacenters", ICNP 2013): a guest whose CPU was taken away finds its timers overdue
 * before it has looked at the packets that came meanwhile, and takes its own absence for
 * congestion. docs/pvtcp.md says what each home calls when.
 *
 * A walk through it: the guest handles tick 100 and isn't run again before tick 160. Its clock
 * jumps: 160 is a spiked tick. A retransmission timer that was due at 103 fires; it is put off to
 * 161, and the ACK that has waited since 101 is handled first. It would show a round trip of 60
 * ticks: the smoothed one is taken in its place. If nothing was waiting, the timer fires at 161,
 * once and for all, and what was lost is repaired one tick late.
 *
 * Where the paper's Algorithm 1 leaves a choice: it sets *all* retransmission timers to the next
 * tick when there was a spike, and so would pull later ones forward; only those that were due by it
 * are touched here, and these also where they are handled later than in the spiked tick itself: a
 * kernel that wakes up inside the work on a long queue of packets goes on with that first, and one
 * with a busy host may need ticks to get from the interrupt to its timers. Nor is a timer put off
 * twice: a guest that never gets two ticks in a row must retransmit, too.
 *
 * Ticks are the guest's own (jiffies, as 64 bits). One clock for each CPU, touched by that CPU
 * only: no lock, no loop, no division, no pointer kept.
 */
#ifndef UC_STEAL_H
#define UC_STEAL_H

#include <linux/stddef.h>
#include <linux/types.h>

enum uc_steal_timer_kind {
	UC_STEAL_RETRANSMISSION,
	UC_STEAL_TAIL_LOSS_PROBE, /* RFC 8985 §7; the paper's kernels have none */
};

/* What becomes of a round-trip time. */
enum uc_steal_rtt {
	UC_STEAL_RTT_MEASURED,
	UC_STEAL_RTT_SMOOTHED, /* equation (11): the smoothed one once more; without one, nothing */
	UC_STEAL_RTT_NONE,     /* it tells nothing */
};

/* Which samples are taken to hold a stall. */
enum uc_steal_filter {
	UC_STEAL_FILTER_OFF,
	UC_STEAL_FILTER_SRTT,   /* the paper's: what is handled in the spiked tick, smoothed */
	UC_STEAL_FILTER_SKIP,   /* the same, not taken at all */
	UC_STEAL_FILTER_FLIGHT, /* of what was sent before the last stall, whenever, smoothed */
};

struct uc_steal_policy {
	__u32 slack_ticks; /* so late a tick may be; 0: the paper's */
	__u8 timers;       /* 1 << enum uc_steal_timer_kind of those that are put off */
	__u8 filter;       /* enum uc_steal_filter */
};

/* What one CPU knows of its clock; all zero at first. */
struct uc_steal_clock {
	__u64 tick;       /* the last one handled */
	__u64 woken_tick; /* the last spiked one; 0: none yet */
	__u64 spikes;
	__u64 deferred; /* timers put off */
	__u64 filtered; /* samples not taken as measured */
	__u32 jump_ticks_max;
};

/* Of each timer: the tick that it was put off to; 0: it wasn't. */
struct uc_steal_timer {
	__u64 given_tick;
};

/*
 * DetectSpikedJiffies(): a timer interrupt is handled, the clock reads `tick`, and the interrupt
 * was expected at `expected_tick`: at the next one on a CPU that ticks (clock->tick + 1), at the
 * programmed one on a CPU that idled without ticks, which is no stall however long it was. Returns
 * by how many ticks the clock jumped.
 */
static __always_inline __u32 uc_steal_tick(struct uc_steal_clock *clock,
					   const struct uc_steal_policy *policy, __u64 tick,
					   __u64 expected_tick)
{
	__u8 first = !clock->tick;
	__u64 jump = tick - clock->tick;

	if (tick <= clock->tick)
		return 0;
	clock->tick = tick;
	if (first)
		return 0;
	if (jump > 0xffffffff)
		jump = 0xffffffff;
	if (tick > expected_tick && tick - expected_tick > policy->slack_ticks) {
		clock->woken_tick = tick;
		clock->spikes++;
		if (jump > clock->jump_ticks_max)
			clock->jump_ticks_max = jump;
	}
	return jump;
}

/* Is this tick one to which the clock jumped? */
static __always_inline __u8 uc_steal_is_spiked(const struct uc_steal_clock *clock, __u64 tick)
{
	return clock->woken_tick && clock->woken_tick == tick;
}

/*
 * RTOManagement(): a timer that was due at `due_tick` fires in `tick`. 1: it is not to be run, but
 * armed again for tick + 1 (equation (9)). One that became due after the CPU was back is late for
 * its own reasons, or not at all.
 */
static __always_inline __u8 uc_steal_defers(struct uc_steal_clock *clock,
					    const struct uc_steal_policy *policy,
					    struct uc_steal_timer *timer,
					    enum uc_steal_timer_kind kind, __u64 due_tick,
					    __u64 tick)
{
	__u8 again = timer->given_tick && timer->given_tick == due_tick;

	if (!(policy->timers >> kind & 1) || !clock->woken_tick || again)
		return 0;
	if (due_tick > tick || due_tick > clock->woken_tick)
		return 0;
	timer->given_tick = tick + 1;
	clock->deferred++;
	return 1;
}

/* Is there any sample in `tick` that would not be taken as measured? */
static __always_inline __u8 uc_steal_filters(const struct uc_steal_clock *clock,
					     const struct uc_steal_policy *policy, __u64 tick)
{
	if (policy->filter == UC_STEAL_FILTER_FLIGHT)
		return !!clock->woken_tick;
	return policy->filter != UC_STEAL_FILTER_OFF && uc_steal_is_spiked(clock, tick);
}

/* RTTMeasurement(): an ACK handled in `tick` times what was sent in `sent_tick`. */
static __always_inline enum uc_steal_rtt uc_steal_rtt(struct uc_steal_clock *clock,
						      const struct uc_steal_policy *policy,
						      __u64 sent_tick, __u64 tick)
{
	if (!uc_steal_filters(clock, policy, tick))
		return UC_STEAL_RTT_MEASURED;
	/* in a stall nothing is sent: what is older than its end is older than its beginning */
	if (policy->filter == UC_STEAL_FILTER_FLIGHT && sent_tick >= clock->woken_tick)
		return UC_STEAL_RTT_MEASURED;
	clock->filtered++;
	return policy->filter == UC_STEAL_FILTER_SKIP ? UC_STEAL_RTT_NONE : UC_STEAL_RTT_SMOOTHED;
}

#endif
