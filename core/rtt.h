/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Round-trip times: what is timed of the guest's data, and the estimates of RFC 6298.
 */
#ifndef UC_RTT_H
#define UC_RTT_H

#include "flow.h"
#include "minmax.h"
#include "since.h"

/* The RTO before the first sample (RFC 6298 (2.1)), and its minimum (2.4), here Linux's. */
#define UC_RTO_INITIAL_US 1000000
#define UC_RTO_MIN_US     200000
/* The longest round-trip time that is accepted; it keeps the scaled sums within 32 bits. */
#define UC_RTT_MAX_US 60000000

/*
 * Returns whether the flow times several segments of a window, about a quarter of the window apart.
 * RFC 6298 needs one round-trip time in a window; only law `delay` needs more.
 */
static __always_inline __u8 uc_has_timers(const struct uc_flow *flow)
{
	return uc_law_has(flow->policy.law, UC_TIMED);
}

/* Stops all timers. */
static __always_inline void uc_stop_timers(struct uc_flow *flow, struct uc_annex *annex)
{
	for (int i = 0; i < UC_TIMERS; i++)
		annex->delay.timers[i].end = flow->snd_una;
}

/* Starts a timer for new data that ends at SND.NXT, if the newest timer is far enough behind. */
static __always_inline void uc_start_timer(struct uc_flow *flow, struct uc_annex *annex,
					   __u64 now_ns)
{
	__u32 newest = flow->snd_una, spacing_bytes = flow->reno.cwnd / UC_TIMERS;
	__u8 running = 0;

	for (int i = 0; i < UC_TIMERS; i++) {
		if (uc_after(annex->delay.timers[i].end, newest)) {
			newest = annex->delay.timers[i].end;
			running = 1;
		}
	}
	if (running && flow->snd_nxt - newest < spacing_bytes)
		return;
	for (int i = 0; i < UC_TIMERS; i++) {
		if (uc_after(annex->delay.timers[i].end, flow->snd_una))
			continue;
		annex->delay.timers[i].end = flow->snd_nxt;
		annex->delay.timers[i].at_us = (__u32)(now_ns / 1000);
		return;
	}
}

/* Returns whether this ACK acknowledges one segment and leaves nothing in flight. */
static __always_inline __u8 uc_was_alone(const struct uc_flow *flow, __u32 acked_bytes)
{
	return acked_bytes <= flow->mss_bytes && !uc_flight_bytes(flow);
}

/*
 * Returns the round-trip time (µs) by an ACK that has moved SND.UNA by acked_bytes; 0: none. If the
 * ACK covers several timed segments, the last one counts: the ACK of the others has waited for it.
 * Receivers delay the ACK of a lone segment (RFC 9293 §3.8.6.3: up to 500 ms, or until their
 * application answers), but not that of a second one. So an ACK of one segment that leaves nothing
 * in flight is no sample.
 */
static __always_inline __u32 uc_read_timers(struct uc_flow *flow, struct uc_annex *annex,
					    __u32 acked_bytes, __u64 now_ns)
{
	__u8 delayed = uc_was_alone(flow, acked_bytes);
	__u32 newest = flow->snd_una - acked_bytes, at_us = 0;
	__u8 read = 0;
	__s32 rtt_us;

	for (int i = 0; i < UC_TIMERS; i++) {
		struct uc_timer *timer = &annex->delay.timers[i];

		if (uc_after(timer->end, flow->snd_una))
			continue;
		if (uc_after(timer->end, newest)) {
			newest = timer->end;
			at_us = timer->at_us;
			read = 1;
		}
		/* follows SND.UNA, so that circular comparisons stay right */
		timer->end = flow->snd_una;
	}
	if (!read || delayed)
		return 0;
	rtt_us = (__s32)((__u32)(now_ns / 1000) - at_us);
	/* clocks of two CPUs may differ a little; 0 would mean "none" */
	if (rtt_us < 1)
		return 1;
	return rtt_us < UC_RTT_MAX_US ? rtt_us : UC_RTT_MAX_US;
}

/* Times new data that end at SND.NXT, unless others are being timed. */
static __always_inline void uc_start_timing(struct uc_flow *flow, struct uc_annex *annex,
					    __u64 now_ns)
{
	if (!(flow->bits & UC_FLOW_TIMED)) {
		flow->bits |= UC_FLOW_TIMED;
		flow->timed_seq = flow->snd_nxt;
		flow->timed_tick = uc_tick(now_ns, UC_RTT_TICK_SHIFT);
	}
	if (uc_has_timers(flow))
		uc_start_timer(flow, annex, now_ns);
}

/* Stops timing the segments in flight. */
static __always_inline void uc_stop_timing(struct uc_flow *flow, struct uc_annex *annex)
{
	flow->bits &= ~UC_FLOW_TIMED;
	if (uc_has_timers(flow))
		uc_stop_timers(flow, annex);
}

/* Adds a round-trip time to the estimate by RFC 6298 (2.2), (2.3); srtt is scaled by 8, rttvar
 * by 4. */
static __always_inline void uc_sample_rtt(struct uc_flow *flow, __u64 rtt_ns)
{
	__u64 whole_us = rtt_ns / 1000;
	__u32 rtt_us = whole_us < UC_RTT_MAX_US ? (__u32)whole_us : UC_RTT_MAX_US;
	__u32 deviation_us;

	flow->backoffs = 0;
	if (!uc_trial_of(flow) && !flow->ecn_lost)
		flow->trial_at = uc_min(flow->trial_at, rtt_us);
	if (!flow->srtt_us) {
		flow->srtt_us = rtt_us << 3;
		flow->rttvar_us = rtt_us << 1;
		return;
	}
	deviation_us = rtt_us > flow->srtt_us >> 3 ? rtt_us - (flow->srtt_us >> 3)
						   : (flow->srtt_us >> 3) - rtt_us;
	flow->rttvar_us += deviation_us - (flow->rttvar_us >> 2);
	flow->srtt_us += rtt_us - (flow->srtt_us >> 3);
}

/* Estimates the guest's RTO in µs (RFC 6298 (2.3)). The minimum applies to the variation, as in
 * Linux, not to the sum. */
static __always_inline __u32 uc_rto_us(const struct uc_flow *flow)
{
	__u32 variation_us = flow->rttvar_us;

	if (!flow->srtt_us)
		return UC_RTO_INITIAL_US;
	if (variation_us < UC_RTO_MIN_US)
		variation_us = UC_RTO_MIN_US;
	return (flow->srtt_us >> 3) + variation_us;
}

#endif
