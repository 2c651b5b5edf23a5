/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * PVTCP (Cheng, Wang and Lau, "PVTCP: Towards Practical and Effective Congestion Control in
 * Virtualized Datacenters", ICNP 2013). A guest whose CPU was stalled finds its timers overdue
 * before it has processed the packets that arrived meanwhile, and takes the stall for congestion.
 * docs/pvtcp.md says which function a platform calls when.
 *
 * An example: the guest handles tick 100 and doesn't run again before tick 160. Its clock jumps:
 * 160 is a spiked tick. A retransmission timer that was due at 103 fires; it is deferred to 161,
 * and the ACK that has waited since 101 is handled first. The ACK would show a round trip of 60
 * ticks; the smoothed one is used instead. If no ACK was waiting, the timer fires at 161 and isn't
 * deferred again, and the lost segment is retransmitted one tick late.
 *
 * Two differences to the paper's Algorithm 1. It sets all retransmission timers to the next tick
 * after a spike, which would pull later timers forward. Here only timers that were due by the spike
 * are deferred, also if they fire later than in the spiked tick: a kernel that resumes inside a
 * long queue of packets finishes that first, and with a busy host it may take ticks from the
 * interrupt to the timers. And a timer is deferred once only, so that a guest that never gets two
 * ticks in a row retransmits as well.
 *
 * Ticks are the guest's own (jiffies, 64 bits). Each CPU has its own clock, which no other CPU
 * touches. The functions take no lock, have no loop, don't divide and keep no pointer.
 */
#ifndef UC_STEAL_H
#define UC_STEAL_H

#include <linux/stddef.h>
#include <linux/types.h>

enum uc_steal_timer_kind {
	UC_STEAL_RETRANSMISSION,
	UC_STEAL_TAIL_LOSS_PROBE, /* RFC 8985 §7; the paper's kernels have none */
};

/* How a round-trip time is used. */
enum uc_steal_rtt {
	UC_STEAL_RTT_MEASURED,
	UC_STEAL_RTT_SMOOTHED, /* replaced by the smoothed one (equation (11)); if none, dropped */
	UC_STEAL_RTT_NONE,     /* dropped */
};

/* Which samples are assumed to include a stall, and what replaces them. */
enum uc_steal_filter {
	UC_STEAL_FILTER_OFF,
	UC_STEAL_FILTER_SRTT,   /* samples of the spiked tick, replaced by smoothed RTT (paper) */
	UC_STEAL_FILTER_SKIP,   /* samples of the spiked tick, dropped */
	UC_STEAL_FILTER_FLIGHT, /* samples of data sent before the last stall, replaced likewise */
};

struct uc_steal_policy {
	__u32 slack_ticks; /* lateness that is no stall, in ticks; 0: none (paper) */
	__u8 timers;       /* bits 1 << enum uc_steal_timer_kind: timers that are deferred */
	__u8 filter;       /* enum uc_steal_filter */
};

/* One CPU's clock. All zero: no tick yet. */
struct uc_steal_clock {
	__u64 tick;       /* the last tick handled */
	__u64 woken_tick; /* the last spiked tick; 0: none yet */
	__u64 spikes;
	__u64 deferred; /* timers deferred */
	__u64 filtered; /* samples replaced or dropped */
	__u32 jump_ticks_max;
};

/* One timer of a connection. */
struct uc_steal_timer {
	__u64 given_tick; /* the tick that it was deferred to; 0: not deferred */
};

/*
 * Handles a timer interrupt (DetectSpikedJiffies() of the PVTCP paper): the clock reads `tick`, and
 * the interrupt was expected at `expected_tick`. On a CPU that ticks this is clock->tick + 1; on a
 * CPU that idled without ticks it is the programmed tick, so idle time is no stall. Returns by how
 * many ticks the clock jumped.
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

/* Returns whether the clock jumped to this tick. */
static __always_inline __u8 uc_steal_is_spiked(const struct uc_steal_clock *clock, __u64 tick)
{
	return clock->woken_tick && clock->woken_tick == tick;
}

/*
 * Returns 1 if a timer due at `due_tick` that fires in `tick` must not run, but be armed again for
 * tick + 1 (RTOManagement() of the PVTCP paper, equation (9)). A timer that became due after the
 * CPU was back isn't deferred: the stall did not delay it.
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

/* Returns whether uc_steal_rtt() may replace or drop a sample in `tick`. */
static __always_inline __u8 uc_steal_filters(const struct uc_steal_clock *clock,
					     const struct uc_steal_policy *policy, __u64 tick)
{
	if (policy->filter == UC_STEAL_FILTER_FLIGHT)
		return !!clock->woken_tick;
	return policy->filter != UC_STEAL_FILTER_OFF && uc_steal_is_spiked(clock, tick);
}

/* Tells how to use the round-trip time of data sent in `sent_tick` whose ACK is handled in `tick`
 * (RTTMeasurement() of the PVTCP paper). */
static __always_inline enum uc_steal_rtt uc_steal_rtt(struct uc_steal_clock *clock,
						      const struct uc_steal_policy *policy,
						      __u64 sent_tick, __u64 tick)
{
	if (!uc_steal_filters(clock, policy, tick))
		return UC_STEAL_RTT_MEASURED;
	/* nothing is sent during a stall: data sent before its end were sent before its begin */
	if (policy->filter == UC_STEAL_FILTER_FLIGHT && sent_tick >= clock->woken_tick)
		return UC_STEAL_RTT_MEASURED;
	clock->filtered++;
	return policy->filter == UC_STEAL_FILTER_SKIP ? UC_STEAL_RTT_NONE : UC_STEAL_RTT_SMOOTHED;
}

#endif
