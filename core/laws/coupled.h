/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flows of guests that change nothing share one window (../coupling.h): by law `coupled`, which is
 * ctrlTCP on the host with either profile of NewReno as the connection's own congestion control; or
 * by `share` beside any other law (vCC §4; ../coupling/sum.h), with that law's shadow. What the
 * shadow computes is the report, and the answer is written over it.
 *
 * The home's part is between the two: it finds the flow's group. So an ACK to the guest goes
 * through in three steps, each under one lock,
 *
 *   uc_translate()       the flow's: the shadow moves; uc_awaits() says that its window is awaited
 *   uc_coupled_report()  the flow's
 *   uc_ccc_update()      the group's
 *   uc_tell_share()      the flow's: the answer becomes the window (core.h)
 *
 * and a home that finds no group tells the shadow's own window, uncoupled.
 *
 * A window that was given and filled is never taken back, so a share that shrinks reaches the guest
 * as its flight falls. Flights above the answer aren't growth: the report's cwnd is the last answer
 * and what the shadow has added to it, never the edge. And while the guest repairs a loss the
 * window is the shadow's; only the ssthresh that it ends with is the group's.
 */
#ifndef UC_LAWS_COUPLED_H
#define UC_LAWS_COUPLED_H

#include "../coupling/segments.h"
#include "../flow.h"
#include "../track.h"
#include "cut.h"
#include "delay.h"
#include "reno_linux.h"
#include "reno_rfc.h"

/* uc_awaits()'s answer. */
#define UC_AWAITS_SHARE     1
#define UC_AWAITS_DUPLICATE 2

/* Who only observes gives no windows, so nobody could share them. */
static __always_inline __u8 uc_is_coupled(const struct uc_flow *flow)
{
	return (uc_law_has(flow->policy.law, UC_GROUPED) || flow->share) && !flow->policy.observe;
}

/* Bytes in one unit of cwnd. */
static __always_inline __u32 uc_coupled_unit(const struct uc_flow *flow)
{
	return uc_counts_segments(flow) ? flow->mss_bytes | !flow->mss_bytes : 1;
}

/* The profile `rfc` grows whether the window is filled or not, and law `delay` doesn't say how far
 * it was filled; the group is to know (RFC 7661). In bytes what uc_linux_validate() does in
 * segments. */
static __always_inline void uc_coupled_validate(struct uc_flow *flow)
{
	struct uc_reno *reno = &flow->reno;
	__u32 flight_bytes = uc_flight_bytes(flow);
	__u8 throttled = flow->given_window < flow->peer_window;
	__u8 limited = flight_bytes + flow->mss_bytes > reno->cwnd ||
		       (throttled && uc_before(flow->edge, flow->snd_nxt + flow->mss_bytes));

	if (uc_counts_segments(flow))
		return;
	if (uc_before(flow->snd_una, reno->usage_seq) && !limited &&
	    (flow->bits & UC_FLOW_LIMITED || flight_bytes <= reno->max_flight))
		return;
	flow->bits &= ~UC_FLOW_LIMITED;
	if (limited)
		flow->bits |= UC_FLOW_LIMITED;
	reno->max_flight = flight_bytes;
	reno->usage_seq = flow->snd_nxt;
}

/* The shadow has seen a segment of the guest. A timeout may be repaired by the next ACK, and the
 * group is to hear of it all the same. */
static __always_inline void uc_coupled_sent(struct uc_flow *flow, enum uc_sent sent)
{
	if ((sent == UC_SENT_TIMEOUT || sent == UC_SENT_FAST) && flow->ca == UC_CA_LOSS)
		flow->bits |= UC_FLOW_STALLED;
	uc_coupled_validate(flow);
}

/* And an ACK: is it one to report? What only receives has nothing to share; and who ends, leaves.
 */
static __always_inline __u8 uc_coupled_ack(struct uc_flow *flow, const struct uc_ack *ack)
{
	flow->coupled.acked_bytes += ack->acked_bytes;
	uc_coupled_validate(flow);
	if (!ack->acked_bytes && !uc_flight_bytes(flow) && !uc_is_closed(flow))
		return 0;
	flow->bits |= UC_FLOW_AWAITS | (ack->duplicate ? UC_FLOW_DUPLICATE : 0);
	return 1;
}

/* Under the same lock as uc_translate(): does the segment that it was given wait for a share?
 * UC_AWAITS_*, for uc_tell_share(). */
static __always_inline __u8 uc_awaits(struct uc_flow *flow)
{
	__u32 bits = flow->bits;

	flow->bits = bits & ~(UC_FLOW_AWAITS | UC_FLOW_DUPLICATE);
	if (!(bits & UC_FLOW_AWAITS))
		return 0;
	return UC_AWAITS_SHARE | (bits & UC_FLOW_DUPLICATE ? UC_AWAITS_DUPLICATE : 0);
}

/*
 * A loss or a mark that is answered within one ACK (a jump, a tail that was repaired) leaves the
 * shadow open again: it is known by what was counted since the last report.
 */
static __always_inline __u8 uc_coupled_state(const struct uc_flow *flow)
{
	if (flow->bits & UC_FLOW_STALLED)
		return UC_CCC_BACKOFF;
	if (flow->ca == UC_CA_LOSS)
		return UC_CCC_LOSS;
	if (flow->ca != UC_CA_OPEN || flow->losses + flow->cuts != flow->coupled.events)
		return UC_CCC_RECOVERY;
	return flow->reno.cwnd < flow->reno.ssthresh ? UC_CCC_SLOW_START : UC_CCC_AVOIDANCE;
}

static __always_inline __u8 uc_coupled_limited(const struct uc_flow *flow)
{
	const struct uc_reno *reno = &flow->reno;
	/* Linux's rule for growth in slow start (reno_linux.h) */
	__u8 grows = reno->cwnd < reno->ssthresh && reno->cwnd < 2 * (__u64)reno->max_flight;

	return !(flow->bits & UC_FLOW_LIMITED) && !(grows && uc_counts_segments(flow));
}

/* A timeout tells of what was sent an RTO before it. Of anything else the controller knows the age
 * as well as the shadow. */
static __always_inline __u32 uc_coupled_lost_age_us(const struct uc_flow *flow, __u8 state,
						    __u64 now_ns)
{
	__u64 age_us = uc_rto_us(flow);

	if (state < UC_CCC_LOSS)
		return 0;
	age_us += uc_since_ns(now_ns, flow->sent_ns) / 1000;
	return age_us < UC_RFC_RTO_MAX_US ? age_us : UC_RFC_RTO_MAX_US;
}

static __always_inline __u32 uc_coupled_bytes(__u64 bytes)
{
	return bytes < UC_INFINITE_SSTHRESH ? bytes : UC_INFINITE_SSTHRESH;
}

/*
 * What the law keeps of a share. In whole segments it says little of one that isn't whole: of 9.5,
 * of which the flow has 9 at the moment, DCTCP takes nothing at a small α, and 9 is not 9.5. So it
 * is as much of the share as it is of the window that the law cut. And a law's floor says nothing
 * of the sum, whose mean window may lie far above it: what it would keep of a larger one does.
 */
static __always_inline __u64 uc_coupled_kept(const struct uc_flow *flow, __u64 ssthresh_bytes,
					     __u64 share_bytes, __u64 whole_bytes)
{
	__u32 floor_segments = uc_max(flow->policy.minimum_window_segments, 2);

	if (uc_law_has(flow->policy.law, UC_GROUPED) || !share_bytes)
		return ssthresh_bytes;
	if (ssthresh_bytes > floor_segments * flow->mss_bytes ||
	    uc_law_has(flow->policy.law, UC_BYTES))
		return ssthresh_bytes * share_bytes / (whole_bytes | !whole_bytes);
	if (uc_law_has(flow->policy.law, UC_SHALLOW) && flow->ca < UC_CA_RECOVERY)
		return uc_cut_remains(flow, share_bytes);
	return share_bytes / 2;
}

static __always_inline struct uc_ccc_report uc_coupled_report(struct uc_flow *flow, __u64 now_ns)
{
	struct uc_coupled *own = &flow->coupled;
	__u32 unit = uc_coupled_unit(flow);
	/* given_bytes is 0 while something is repaired, so this was in a reduction before */
	__u8 again = flow->ca == UC_CA_CWR && flow->losses + flow->cuts != own->events &&
		     !own->given_bytes;
	__u64 cwnd_bytes = (__u64)(again ? flow->reno.prior_cwnd : flow->reno.cwnd) * unit;
	__u8 state = uc_coupled_state(flow);
	struct uc_ccc_report report = {
		.ssthresh_bytes = uc_coupled_bytes((__u64)flow->reno.ssthresh * unit),
		.flight_bytes = uc_flight_bytes(flow),
		.used_bytes = uc_coupled_bytes((__u64)flow->reno.max_flight * unit),
		.acked_bytes = own->acked_bytes,
		.srtt_us = flow->srtt_us,
		.lost_age_us = uc_coupled_lost_age_us(flow, state, now_ns),
		.mss_bytes = flow->mss_bytes,
		.state = state,
		.limited = uc_coupled_limited(flow),
		.again = again,
	};

	if (flow->reno.ssthresh == UC_INFINITE_SSTHRESH)
		report.ssthresh_bytes = UC_CCC_INFINITE_SSTHRESH;
	else if (state >= UC_CCC_RECOVERY)
		report.ssthresh_bytes = uc_coupled_bytes(
			again ? uc_coupled_kept(flow, report.ssthresh_bytes, cwnd_bytes, cwnd_bytes)
			      : uc_coupled_kept(flow, report.ssthresh_bytes, own->given_bytes,
						(__s64)own->given_bytes + own->beyond_bytes));
	if (own->beyond_bytes < 0 || cwnd_bytes > (__u32)own->beyond_bytes)
		cwnd_bytes -= (__s64)own->beyond_bytes;
	/* A window that fell without a loss was not used for a while (RFC 5681 §4.1). That is this
	 * flow's affair: others have tried the group's meanwhile, and unused shares are released.
	 */
	if (state < UC_CCC_RECOVERY && cwnd_bytes < own->given_bytes)
		cwnd_bytes = own->given_bytes;
	report.cwnd_bytes = uc_coupled_bytes(cwnd_bytes);
	own->events = flow->losses + flow->cuts;
	flow->bits &= ~UC_FLOW_STALLED;
	return report;
}

/*
 * The answer overrules the shadow; but what has happened to that since the report comes first. A
 * window's edge lies between whole segments, so of a share of 9.5 of them the guest would use 9.
 */
static __always_inline void uc_coupled_obey(struct uc_flow *flow,
					    const struct uc_ccc_answer *answer)
{
	struct uc_coupled *own = &flow->coupled;
	__u32 unit = uc_coupled_unit(flow), acked_bytes = own->acked_bytes, whole_bytes;

	own->acked_bytes = 0;
	own->given_bytes = 0;
	own->beyond_bytes = 0;
	flow->reno.ssthresh = answer->ssthresh_bytes == UC_CCC_INFINITE_SSTHRESH
				      ? UC_INFINITE_SSTHRESH
				      : uc_max(answer->ssthresh_bytes / unit, 1);
	if (answer->state == UC_CCC_LOSS)
		/* the shadow's own, or less */
		flow->reno.cwnd = uc_min(flow->reno.cwnd, uc_max(answer->cwnd_bytes / unit, 1));
	if (answer->state >= UC_CCC_RECOVERY || flow->ca != UC_CA_OPEN)
		return;
	whole_bytes =
		uc_ccc_whole(&own->segments, answer->cwnd_bytes, acked_bytes, flow->mss_bytes);
	/* what the law gives nobody less than would come back as growth */
	if (uc_machine_of(flow->policy.law) == UC_MACHINE_delay)
		whole_bytes = uc_max(whole_bytes, uc_delay_floor_bytes(flow));
	own->given_bytes = answer->cwnd_bytes;
	own->beyond_bytes = whole_bytes - answer->cwnd_bytes;
	flow->reno.cwnd = uc_max(whole_bytes / unit, 1);
}

#endif
