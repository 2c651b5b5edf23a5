/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the port has missed: segments of the flow that went past it (another interface after a
 * fail-over, IPv6 extension headers, another program in front). The guard must not hold a guest to
 * windows that the port could not follow.
 *
 * An ACK beyond SND.NXT, within what the guest was allowed to send, shows that the port has missed
 * data. The flow goes on from there (uc_catch_up). The guard stays: a guest could send such data on
 * purpose, to be rid of it.
 *
 * If the port has missed ACKs, the guest's next data lie beyond every edge that the port knows, and
 * no ACK comes for data that the guard drops. So after a pause as long as a retransmission timeout,
 * in which nothing of the guest has passed, the flow goes on from the guest's own sequence number,
 * with two segments (uc_go_on). Until an ACK passes again, a smoothed round-trip time takes the
 * place of the timeout, and the guard drops what lies further back. If that ACK is of less, the
 * flow goes back to it (uc_go_back): the segment was none that the peer takes. A guest that feigns
 * this gains nothing: two segments in a round trip are what the law grants at the worst.
 * Bound: the next ACK of the peer ends this (UC_FLOW_BLIND).
 *
 * No peer takes data that end a largest window beyond SND.UNA (RFC 7323 §2.3). Without a guard they
 * pass, and the flow stays where it is, unless the guest has paused: otherwise its sequence numbers
 * could no longer be compared with the guest's.
 */
#ifndef UC_MISSED_H
#define UC_MISSED_H

#include "distrust.h"
#include "flow.h"
#include "guard.h"
#include "laws/law.h"
#include "minmax.h"
#include "track.h"

#define UC_BLIND_SEGMENTS 2

/* Moves the flow to an ACK beyond SND.NXT, as if what the port missed had been acknowledged before.
 * Returns 1 then; 0 if the ACK is not beyond SND.NXT. The caller has checked that the ACK is
 * acceptable. */
static __always_inline __u8 uc_catch_up(struct uc_flow *flow, __u32 ack)
{
	__u32 missed_bytes = ack - flow->snd_nxt;

	if (!uc_after(ack, flow->snd_nxt + !!(flow->bits & UC_FLOW_PROBED)))
		return 0;
	flow->snd_una += missed_bytes;
	flow->snd_nxt += missed_bytes;
	flow->bits &= ~(UC_FLOW_PROBED | UC_FLOW_RESENT);
	uc_undo_close(flow); /* the port may have missed retransmissions */
	return 1;
}

/* Returns whether a segment of the guest ends further beyond SND.UNA than any window reaches. */
static __always_inline __u8 uc_is_far(const struct uc_flow *flow, const struct uc_segment *segment)
{
	__u32 end = uc_segment_end(segment);

	return end != segment->seq && uc_after(end, flow->snd_una + (1U << 30));
}

/* Returns whether data beyond every edge may pass: at most two segments, after the guest has paused
 * for a retransmission timeout, or while UC_FLOW_BLIND for a smoothed round-trip time. */
static __always_inline __u8 uc_may_go_on(const struct uc_flow *flow,
					 const struct uc_segment *segment, __u64 now_ns)
{
	__u64 paused_us = flow->sent_tick ? uc_idle_us(flow, now_ns)
					  : uc_since_ns(now_ns, flow->seen_ns) / 1000;
	__u32 pause_us = uc_rto_us(flow);

	if (flow->bits & UC_FLOW_BLIND && flow->srtt_us)
		pause_us = flow->srtt_us >> 3;
	return paused_us > pause_us &&
	       uc_segment_end(segment) - segment->seq <= UC_BLIND_SEGMENTS * flow->mss_bytes;
}

/* Restarts the flow at the guest's sequence number `seq`, with an edge two segments ahead, and a
 * window of at most the flow's. */
static __always_inline void uc_go_on(struct uc_flow *flow, struct uc_annex *annex, __u32 seq)
{
	struct uc_reno was = flow->reno;

	flow->snd_una = seq;
	flow->snd_nxt = seq;
	flow->runt_seq = seq;
	flow->resent_end = seq;
	flow->edge = seq + UC_BLIND_SEGMENTS * flow->mss_bytes;
	flow->furthest_edge = flow->edge;
	flow->dup_acks = 0;
	flow->repeated = 0;
	flow->bits &= ~(UC_FLOW_PROBED | UC_FLOW_RESENT | UC_FLOW_TIMED | UC_FLOW_TIMED_OUT |
			UC_FLOW_HOLE);
	flow->bits |= UC_FLOW_BLIND;
	flow->ca = UC_CA_OPEN;
	uc_distrust_moved(flow);
	uc_law_open(flow, annex);
	flow->reno.cwnd = uc_min(flow->reno.cwnd, was.cwnd);
	flow->reno.ssthresh = was.ssthresh;
	flow->reno.acked = 0;
}

/* Ends the time without ACKs. If the ACK is below the number from which the flow went on, returns
 * the flow to the ACK's number, and returns 1; otherwise returns 0. */
static __always_inline __u8 uc_go_back(struct uc_flow *flow, struct uc_annex *annex, __u32 ack)
{
	__u8 less = uc_before(ack, flow->snd_una);

	if (less)
		uc_go_on(flow, annex, ack);
	flow->bits &= ~UC_FLOW_BLIND;
	return less;
}

#endif
