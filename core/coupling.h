/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ctrlTCP's coupled congestion controller (Islam and others, "Control TCP"; draft-welzl-tcp-ccc):
 * the flows that share a bottleneck share one window, divided among guests by weight and among the
 * flows of a guest by priority. docs/ctrltcp.md says which function a platform calls when.
 *
 * An example: a flow registers and gets its share of the window that others have opened; the sum
 * stays. Its TCP grows by a segment: the group's window grows by a segment times the flow's share
 * (window.h), and the flow gets its share of the new sum. Another flow loses: the sum is reduced
 * once, and each flow gets its smaller share at its next ACK (group.h). A third flow has nothing to
 * send: its weight decreases, and the others' shares grow. A fourth flow vanishes without a FIN: an
 * epoch later it isn't counted (pool.h).
 *
 * Not taken over from the draft: a coordinator, whose silence stops the group; stored shares that
 * nobody recomputes; a sum that each join inflates. Added to the draft: guests; release of the
 * shares of idle flows; shares by rate; the aggressiveness of more than one TCP.
 *
 * The functions have no loop, keep no pointer and divide unsigned 64-bit numbers only, so a
 * platform may hold a BPF spin lock around each. Time never runs backwards for the group: a clock
 * reading before the epoch's begin counts as that begin.
 */
#ifndef UC_COUPLING_H
#define UC_COUPLING_H

#include "coupling/segments.h"
#include "coupling/window.h"
#include "merge.h"

/* Returns the flow's contribution to its guest's pool after this report. */
static __always_inline struct uc_ccc_amounts uc_ccc_flow_amounts(const struct uc_ccc *ccc,
								 const struct uc_ccc_flow *flow,
								 const struct uc_ccc_report *report,
								 __u64 share_bytes, __u8 known)
{
	__u64 claim = flow->priority * uc_ccc_unit(ccc, report);
	__u8 hungry = !report->limited || report->state >= UC_CCC_RECOVERY;
	struct uc_ccc_amounts amounts = {
		.weight = claim,
		.claim = claim,
		.flight_bytes = report->flight_bytes,
		.used_bytes = report->used_bytes,
		.priority = flow->priority,
		.flows = 1,
		.hungry = hungry,
		.stalled = report->state == UC_CCC_LOSS,
	};

	if (!hungry && known)
		amounts.weight = uc_ccc_released(flow->stake.held.weight, claim, report->used_bytes,
						 share_bytes);
	return amounts;
}

/* Returns the guest's contribution to the group's pool. Its weight doesn't depend on the number of
 * its flows; it releases weight only while none of its flows is window-limited. */
static __always_inline struct uc_ccc_amounts uc_ccc_guest_amounts(const struct uc_ccc *ccc,
								  const struct uc_ccc_guest *guest)
{
	struct uc_ccc_amounts amounts = guest->flows.counted;
	__u64 weight = uc_min64(uc_max64(guest->weight, 1), UC_CCC_WEIGHT_MAX);
	/* the mean unit of its flows: 2^16, or the round-trip time where shares are rates */
	__u64 unit = amounts.claim / (amounts.priority | !amounts.priority);
	__u64 before = guest->stake.held.weight;

	amounts.claim = weight * uc_max64(uc_min64(unit, UC_CCC_SRTT_MAX_US), 1);
	amounts.weight = amounts.claim;
	if (!amounts.hungry && uc_ccc_is_counted(&ccc->guests, &guest->stake))
		amounts.weight =
			uc_ccc_released(before, amounts.claim, amounts.used_bytes,
					uc_ccc_guest_share(ccc, guest, uc_ccc_window_bytes(ccc)));
	amounts.hungry_guests = amounts.hungry > 0;
	amounts.priority = weight;
	return amounts;
}

/* Recomputes the guest's contribution; withdraws it after the guest's last flow. The guest counts
 * exactly as long as one of its flows does: otherwise no flow would use its share. */
static __always_inline void uc_ccc_settle(struct uc_ccc *ccc, struct uc_ccc_guest *guest)
{
	struct uc_ccc_amounts amounts;

	if (!guest->flows.counted.flows) {
		uc_ccc_withdraw(&ccc->guests, &guest->stake);
		return;
	}
	amounts = uc_ccc_guest_amounts(ccc, guest);
	uc_ccc_enter(&ccc->guests, &guest->stake, &amounts,
		     ccc->guests.epoch - !guest->flows.heard.flows);
}

/*
 * Returns the window that the flow gets: its share, at least one segment. While other flows'
 * packets still fill the group's window, a share that grew is limited to what the flow had, to the
 * room that those packets leave, or to a first burst, whichever is largest. The other flows' shares
 * have shrunk, so they send less than is acknowledged, and each of their ACKs makes room (the
 * draft's ack clock, without its counters).
 */
static __always_inline __u32 uc_ccc_grant(const struct uc_ccc *ccc, const struct uc_ccc_flow *flow,
					  __u64 share_bytes, __u32 had_bytes)
{
	__u64 others_bytes =
		uc_ccc_less(ccc->guests.counted.flight_bytes, flow->stake.held.flight_bytes);
	__u64 room_bytes = uc_ccc_less(uc_ccc_window_bytes(ccc), others_bytes);
	__u64 burst_bytes = (__u64)ccc->policy.burst_segments * flow->mss_bytes;

	if (ccc->policy.burst_segments < 65535)
		share_bytes = uc_min64(share_bytes,
				       uc_max64(had_bytes, uc_max64(room_bytes, burst_bytes)));
	/* so that a flow with a small share doesn't starve */
	return uc_max64(share_bytes, flow->mss_bytes);
}

/*
 * Returns the answer to a flow that had the window `had_bytes` and reports `own_bytes`. In recovery
 * the flow's own TCP sets its window (RFC 6582's inflation, RFC 6937's reduction, slow start after
 * a timeout), toward the ssthresh of this answer.
 */
static __always_inline struct uc_ccc_answer uc_ccc_answer(const struct uc_ccc *ccc,
							  const struct uc_ccc_guest *guest,
							  struct uc_ccc_flow *flow, __u32 own_bytes,
							  __u32 had_bytes)
{
	__u64 window_bytes = uc_ccc_window_bytes(ccc);
	__u64 share_bytes = uc_ccc_share(ccc, guest, flow, window_bytes);
	struct uc_ccc_answer answer = {
		.cwnd_bytes = own_bytes,
		.ssthresh_bytes = ccc->ssthresh_bytes,
		.state = flow->state,
	};

	if (ccc->ssthresh_bytes != UC_CCC_INFINITE_SSTHRESH)
		answer.ssthresh_bytes = uc_max64(
			uc_ccc_share(ccc, guest, flow, ccc->ssthresh_bytes), flow->mss_bytes);
	if (flow->state == UC_CCC_LOSS) {
		answer.cwnd_bytes = uc_min64(own_bytes, uc_max64(share_bytes, flow->mss_bytes));
	} else if (flow->state < UC_CCC_RECOVERY) {
		answer.cwnd_bytes = uc_ccc_grant(ccc, flow, share_bytes, had_bytes);
		answer.state =
			window_bytes < ccc->ssthresh_bytes ? UC_CCC_SLOW_START : UC_CCC_AVOIDANCE;
	}
	flow->given_bytes = answer.cwnd_bytes;
	flow->given_ssthresh_bytes = answer.ssthresh_bytes;
	return answer;
}

/* Applies a flow's report to the group and returns the answer. `known`: the flow had registered
 * before. */
static __always_inline struct uc_ccc_answer
uc_ccc_hear_flow(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
		 const struct uc_ccc_report *report, __u8 known, __u64 now_ns)
{
	__u8 fell = report->state == UC_CCC_LOSS && flow->state != UC_CCC_LOSS;
	struct uc_ccc_amounts amounts;
	__u64 share_bytes;
	__u32 had_bytes;

	known = known && uc_ccc_is_counted(&guest->flows, &flow->stake);
	uc_merge(known, now_ns);
	had_bytes = known ? flow->given_bytes : 0;
	ccc->srtt_max_us = uc_max64(ccc->srtt_max_us, report->srtt_us);
	share_bytes = uc_ccc_share(ccc, guest, flow, uc_ccc_window_bytes(ccc));
	uc_merge(share_bytes, now_ns);
	uc_ccc_digest(ccc, flow, report, share_bytes, known, now_ns);
	amounts = uc_ccc_flow_amounts(ccc, flow, report, share_bytes, known);
	flow->state = report->state;
	flow->mss_bytes = report->mss_bytes;
	uc_ccc_enter(&guest->flows, &flow->stake, &amounts, guest->flows.epoch);
	uc_ccc_settle(ccc, guest);
	if (fell)
		uc_ccc_collapse(ccc, report->mss_bytes);
	return uc_ccc_answer(ccc, guest, flow, report->cwnd_bytes, had_bytes);
}

/* For the kernel's verifier (merge.h): merges the code paths on which a report's numbers were
 * limited. */
static __always_inline void uc_ccc_merge(struct uc_ccc_report *report, __u64 now_ns)
{
	uc_merge(report->cwnd_bytes, now_ns);
	uc_merge(report->ssthresh_bytes, now_ns);
	uc_merge(report->flight_bytes, now_ns);
	uc_merge(report->used_bytes, now_ns);
	uc_merge(report->acked_bytes, now_ns);
	uc_merge(report->srtt_us, now_ns);
	uc_merge(report->mss_bytes, now_ns);
	uc_merge(report->state, now_ns);
}

/*
 * Enters a connection that begins: register(c, p, cwnd, ssthresh). The priority is 1 to 255; 0
 * counts as 1. The first flow of a group brings its window; later ones get a share of it. A flow
 * that registers again is treated as new, and still counted once.
 */
static __always_inline struct uc_ccc_answer
uc_ccc_register(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
		__u8 priority, const struct uc_ccc_report *said, __u64 now_ns)
{
	struct uc_ccc_report report = uc_ccc_believe(said);
	__u32 window_bytes;

	report.state = uc_min64(report.state, UC_CCC_LOSS);
	uc_ccc_merge(&report, now_ns);
	now_ns = uc_max64(now_ns, ccc->began_ns);
	uc_ccc_advance(ccc, guest, now_ns);
	if (!ccc->guests.counted.flows) {
		window_bytes = report.cwnd_bytes;
		/* A reduction that its law has begun elsewhere ends at ssthresh. The next one is
		 * news, however soon it follows. */
		if (report.state == UC_CCC_RECOVERY)
			window_bytes = uc_min64(window_bytes, report.ssthresh_bytes);
		ccc->cut_ns = 0;
		uc_ccc_set_window(ccc, (__u64)window_bytes << 16);
		ccc->ssthresh_bytes = report.ssthresh_bytes;
	}
	flow->priority = uc_max64(priority, 1);
	flow->state = report.state;
	return uc_ccc_hear_flow(ccc, guest, flow, &report, 0, now_ns);
}

/*
 * Takes what the connection's own law has computed: update(c, cwnd, ssthresh, state). A connection
 * that isn't registered gets its own numbers back: uncoupled TCP.
 */
static __always_inline struct uc_ccc_answer
uc_ccc_update(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
	      const struct uc_ccc_report *said, __u64 now_ns)
{
	struct uc_ccc_report report = uc_ccc_believe(said);

	if (!flow->priority)
		return uc_ccc_uncoupled(said);
	now_ns = uc_max64(now_ns, ccc->began_ns);
	uc_ccc_advance(ccc, guest, now_ns);
	uc_ccc_back_off(ccc, flow, &report, now_ns);
	uc_ccc_merge(&report, now_ns);
	/* not for a timeout: it reduces the window that the group had */
	if (!ccc->guests.counted.flows && report.state < UC_CCC_RECOVERY)
		uc_ccc_restart(ccc, report.mss_bytes);
	return uc_ccc_hear_flow(ccc, guest, flow, &report, 1, now_ns);
}

/* Removes a connection that has ended: leave(c). The group keeps its window. */
static __always_inline void uc_ccc_leave(struct uc_ccc *ccc, struct uc_ccc_guest *guest,
					 struct uc_ccc_flow *flow, __u64 now_ns)
{
	const struct uc_ccc_flow none = {};

	if (!flow->priority)
		return;
	uc_ccc_advance(ccc, guest, uc_max64(now_ns, ccc->began_ns));
	uc_ccc_withdraw(&guest->flows, &flow->stake);
	uc_ccc_settle(ccc, guest);
	*flow = none;
}

/*
 * Returns the answer again, between two reports: for a platform that gives a new flow its room as
 * other flows' ACKs make it. Valid only while the connection's window is the one that it got last.
 */
static __always_inline struct uc_ccc_answer
uc_ccc_ask(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow, __u64 now_ns)
{
	__u32 had_bytes = flow->given_bytes;

	/* a flow that isn't counted any more must report before it gets a new window */
	uc_ccc_advance(ccc, guest, uc_max64(now_ns, ccc->began_ns));
	if (!flow->priority || !uc_ccc_is_counted(&guest->flows, &flow->stake)) {
		struct uc_ccc_answer answer = {
			.cwnd_bytes = had_bytes,
			.ssthresh_bytes = flow->given_ssthresh_bytes,
			.state = flow->state,
		};

		return answer;
	}
	return uc_ccc_answer(ccc, guest, flow, had_bytes, had_bytes);
}

#endif
