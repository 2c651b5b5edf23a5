/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flows of unmodified guests share one window (../coupling.h). With law `coupled`, this is ctrlTCP
 * on the host, and either profile of NewReno is the connection's own congestion control. With
 * `share` in addition to another law (vCC §4; ../coupling/sum.h), it is that law's shadow. The flow
 * reports the shadow's window to its group, and the group's answer replaces it.
 *
 * Between report and answer the platform finds the flow's group. So an ACK to the guest takes three
 * steps, each under one lock:
 *
 *   uc_translate()       flow's lock: the shadow changes; uc_awaits() says whether a report follows
 *   uc_coupled_report()  the same lock
 *   uc_ccc_update()      group's lock
 *   uc_tell_share()      flow's lock: the answer becomes the window (core.h)
 *
 * A platform that finds no group advertises the shadow's own window, uncoupled.
 *
 * An advertised window that the guest filled is never taken back, so a smaller share takes effect
 * as the guest's flight falls. A flight above the answer is no growth: the reported cwnd is the
 * last answer plus what the shadow has added to it, never the right edge. During loss recovery the
 * window is the shadow's; only the ssthresh at its end is the group's.
 */
#ifndef UC_LAWS_COUPLED_H
#define UC_LAWS_COUPLED_H

#include "../coupling/segments.h"
#include "../flow.h"
#include "../merge.h"
#include "../track.h"
#include "cut.h"
#include "delay.h"
#include "reno_linux.h"
#include "reno_rfc.h"

/* Bits that uc_awaits() returns. */
#define UC_AWAITS_SHARE     1
#define UC_AWAITS_DUPLICATE 2

/* Returns the bytes in one unit of cwnd. */
static __always_inline __u32 uc_coupled_unit(const struct uc_flow *flow)
{
	return uc_counts_segments(flow) ? flow->mss_bytes | !flow->mss_bytes : 1;
}

/* Notes how far the guest fills the window, for the group (RFC 7661), where cwnd counts bytes:
 * profile `rfc` grows whether the window is filled or not, and law `delay` does not note how far.
 * uc_linux_validate() does the same in segments. */
static __always_inline void uc_coupled_validate(struct uc_flow *flow, struct uc_annex *annex)
{
	struct uc_reno *reno = &flow->reno;
	__u32 flight_bytes = uc_flight_bytes(flow);
	__u8 throttled = flow->given_window < flow->peer_window;
	__u8 limited = flight_bytes + flow->mss_bytes > reno->cwnd ||
		       (throttled && uc_before(flow->edge, flow->snd_nxt + flow->mss_bytes));

	if (uc_counts_segments(flow))
		return;
	if (uc_before(flow->snd_una, reno->usage_seq) && !limited &&
	    (flow->bits & UC_FLOW_LIMITED || flight_bytes <= annex->coupled.max_flight))
		return;
	flow->bits &= ~UC_FLOW_LIMITED;
	if (limited)
		flow->bits |= UC_FLOW_LIMITED;
	annex->coupled.max_flight = flight_bytes;
	reno->usage_seq = flow->snd_nxt;
}

/* Handles a segment of the guest, after the shadow was updated. Notes a timeout, so that the group
 * learns of it even if the next ACK ends the recovery. */
static __always_inline void uc_coupled_sent(struct uc_flow *flow, struct uc_annex *annex,
					    const struct uc_sample *sample)
{
	if ((sample->sent == UC_SENT_TIMEOUT || sample->sent == UC_SENT_FAST) &&
	    flow->ca == UC_CA_LOSS)
		flow->bits |= UC_FLOW_STALLED;
	uc_coupled_validate(flow, annex);
}

/* Takes in an ACK. Returns 1 if the group must be asked: data is acknowledged or in flight, or the
 * connection has closed. */
static __always_inline __u8 uc_coupled_ack(struct uc_flow *flow, struct uc_annex *annex,
					   const struct uc_sample *sample)
{
	annex->coupled.acked_bytes += sample->acked_bytes;
	uc_coupled_validate(flow, annex);
	if (!sample->acked_bytes && !uc_flight_bytes(flow) && !uc_is_closed(flow))
		return 0;
	flow->bits |= UC_FLOW_AWAITS | (sample->duplicate ? UC_FLOW_DUPLICATE : 0);
	return 1;
}

/* Returns UC_AWAITS_* for uc_tell_share(), 0 if the segment given to uc_translate() waits for no
 * share. Call it under the same lock as uc_translate(). */
static __always_inline __u8 uc_awaits(struct uc_flow *flow)
{
	__u32 bits = flow->bits;

	flow->bits = bits & ~(UC_FLOW_AWAITS | UC_FLOW_DUPLICATE);
	if (!(bits & UC_FLOW_AWAITS))
		return 0;
	return UC_AWAITS_SHARE | (bits & UC_FLOW_DUPLICATE ? UC_AWAITS_DUPLICATE : 0);
}

/*
 * Returns the state to report, UC_CCC_*. A loss or mark that is answered within one ACK leaves the
 * shadow in UC_CA_OPEN: the counts since the last report show it.
 */
static __always_inline __u8 uc_coupled_state(const struct uc_flow *flow,
					     const struct uc_annex *annex)
{
	if (flow->bits & UC_FLOW_STALLED)
		return UC_CCC_BACKOFF;
	if (flow->ca == UC_CA_LOSS)
		return UC_CCC_LOSS;
	if (flow->ca != UC_CA_OPEN || flow->losses + flow->cuts != annex->coupled.events)
		return UC_CCC_RECOVERY;
	return flow->reno.cwnd < flow->reno.ssthresh ? UC_CCC_SLOW_START : UC_CCC_AVOIDANCE;
}

/* Returns the largest flight of the window that ends at usage_seq, in cwnd's unit. */
static __always_inline __u32 uc_coupled_flight(const struct uc_flow *flow,
					       const struct uc_annex *annex)
{
	return uc_counts_segments(flow) ? flow->reno.reduced_seq : annex->coupled.max_flight;
}

static __always_inline __u8 uc_coupled_limited(const struct uc_flow *flow,
					       const struct uc_annex *annex)
{
	const struct uc_reno *reno = &flow->reno;
	/* Linux's rule for growth in slow start (reno_linux.h) */
	__u8 grows = reno->cwnd < reno->ssthresh &&
		     reno->cwnd < 2 * (__u64)uc_coupled_flight(flow, annex);

	return !(flow->bits & UC_FLOW_LIMITED) && !(grows && uc_counts_segments(flow));
}

/* Returns how long ago (µs) the segment was sent that a timeout found lost: an RTO before the guest
 * last sent data. Returns 0 in other states: the controller then estimates it. */
static __always_inline __u32 uc_coupled_lost_age_us(const struct uc_flow *flow, __u8 state,
						    __u64 now_ns)
{
	__u64 age_us = uc_rto_us(flow);

	if (state < UC_CCC_LOSS)
		return 0;
	age_us += uc_idle_us(flow, now_ns);
	return age_us < UC_RFC_RTO_MAX_US ? age_us : UC_RFC_RTO_MAX_US;
}

static __always_inline __u32 uc_coupled_bytes(__u64 bytes)
{
	return bytes < UC_INFINITE_SSTHRESH ? bytes : UC_INFINITE_SSTHRESH;
}

/*
 * Returns what the law leaves of a share in bytes. The law computes in whole segments, which a
 * share need not be: of a share of 9.5 segments, of which the flow has 9 now, DCTCP takes nothing
 * at a small α. So the result has the same ratio to the share as the law's ssthresh to the window
 * that it cut. A window at the law's floor has no such ratio; then it is what a cut leaves of a
 * larger window.
 */
static __always_inline __u64 uc_coupled_kept(const struct uc_flow *flow, __u64 ssthresh_bytes,
					     __u64 share_bytes, __u64 whole_bytes)
{
	__u32 floor_segments = uc_max(uc_cut_least(flow), 2);

	if (uc_law_has(flow->policy.law, UC_GROUPED) || !share_bytes)
		return ssthresh_bytes;
	if (ssthresh_bytes > floor_segments * flow->mss_bytes ||
	    uc_law_has(flow->policy.law, UC_BYTES))
		return ssthresh_bytes * share_bytes / (whole_bytes | !whole_bytes);
	if (uc_law_has(flow->policy.law, UC_SHALLOW) && flow->ca < UC_CA_RECOVERY)
		return uc_cut_remains(flow, share_bytes);
	return share_bytes / 2;
}

static __always_inline struct uc_ccc_report uc_coupled_report(struct uc_flow *flow,
							      struct uc_annex *annex, __u64 now_ns)
{
	struct uc_coupled *own = &annex->coupled;
	__u32 unit = uc_coupled_unit(flow);
	/* given_bytes is 0 during loss recovery, so the flow was in a reduction before */
	__u8 again = flow->ca == UC_CA_CWR && flow->losses + flow->cuts != own->events &&
		     !own->given_bytes;
	__u64 cwnd_bytes = (__u64)(again ? flow->reno.prr.prior_cwnd : flow->reno.cwnd) * unit;
	__u8 state = uc_coupled_state(flow, annex), limited = uc_coupled_limited(flow, annex);
	struct uc_ccc_report report;

	uc_merge(again, now_ns);
	uc_merge(state, now_ns);
	uc_merge(limited, now_ns);
	report = (struct uc_ccc_report){
		.ssthresh_bytes = uc_coupled_bytes((__u64)flow->reno.ssthresh * unit),
		.flight_bytes = uc_flight_bytes(flow),
		.used_bytes = uc_coupled_bytes((__u64)uc_coupled_flight(flow, annex) * unit),
		.acked_bytes = own->acked_bytes,
		.srtt_us = flow->srtt_us,
		.lost_age_us = uc_coupled_lost_age_us(flow, state, now_ns),
		.mss_bytes = flow->mss_bytes,
		.state = state,
		.limited = limited,
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
	/* A window that fell without a loss was idle (RFC 5681 §4.1). The group ignores that: other
	 * flows have used its window meanwhile, and unused shares are released. */
	if (state < UC_CCC_RECOVERY && cwnd_bytes < own->given_bytes)
		cwnd_bytes = own->given_bytes;
	report.cwnd_bytes = uc_coupled_bytes(cwnd_bytes);
	uc_merge(report.cwnd_bytes, now_ns);
	uc_merge(report.ssthresh_bytes, now_ns);
	uc_merge(report.lost_age_us, now_ns);
	own->events = flow->losses + flow->cuts;
	flow->bits &= ~UC_FLOW_STALLED;
	return report;
}

/*
 * Sets the shadow's window to the group's answer, unless the shadow has begun a reduction since the
 * report. The window is whole segments whose mean is the answer: the right edge lies between
 * segments, so of a share of 9.5 the guest would otherwise use 9.
 */
static __always_inline void uc_coupled_obey(struct uc_flow *flow, struct uc_annex *annex,
					    const struct uc_ccc_answer *answer)
{
	struct uc_coupled *own = &annex->coupled;
	__u32 unit = uc_coupled_unit(flow), acked_bytes = own->acked_bytes, whole_bytes;

	own->acked_bytes = 0;
	own->given_bytes = 0;
	own->beyond_bytes = 0;
	flow->reno.ssthresh = answer->ssthresh_bytes == UC_CCC_INFINITE_SSTHRESH
				      ? UC_INFINITE_SSTHRESH
				      : uc_max(answer->ssthresh_bytes / unit, 1);
	if (answer->state == UC_CCC_LOSS)
		/* at most the shadow's own window */
		flow->reno.cwnd = uc_min(flow->reno.cwnd, uc_max(answer->cwnd_bytes / unit, 1));
	if (answer->state >= UC_CCC_RECOVERY || flow->ca != UC_CA_OPEN)
		return;
	whole_bytes =
		uc_ccc_whole(&own->segments, answer->cwnd_bytes, acked_bytes, flow->mss_bytes);
	/* below the law's floor, the floor itself would be reported as growth */
	if (uc_machine_of(flow->policy.law) == UC_MACHINE_delay)
		whole_bytes = uc_max(whole_bytes, uc_delay_floor_bytes(flow));
	own->given_bytes = answer->cwnd_bytes;
	own->beyond_bytes = whole_bytes - answer->cwnd_bytes;
	flow->reno.cwnd = uc_max(whole_bytes / unit, 1);
}

#endif
