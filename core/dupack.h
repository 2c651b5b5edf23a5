/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Duplicate ACKs of the host. A guest whose last segments are lost gets no ACK any more and waits
 * for its retransmission timer, which is 200 ms or more. The host has timed the path. When a flow
 * has been silent for longer than the path explains, the host sends its guest the duplicate ACKs
 * that the peer would send if only the first segment in flight were lost. The third makes a sender
 * retransmit (RFC 5681 §3.2). T-RACKs does this in a kernel module.
 *
 *   when      nothing has passed for srtt + 4 · rttvar, RFC 6298's timeout without its minimum, but
 *             for the policy's least time; twice as long after each round
 *   how many  as many as complete three duplicate ACKs; later rounds send one more each
 *   at most   one less than there are segments in flight: a peer acknowledges each segment behind
 *             the lost one once. Real duplicate ACKs count
 *
 * So fewer than four segments in flight get fewer than three duplicate ACKs, on which only early
 * retransmit (RFC 5827) acts. Policy may lift the bound for these short tails: a sender to the
 * letter of RFC 5681 counts duplicate ACKs and not segments. Linux counts both. A peer may delay
 * the ACK of a lone segment, so there policy adds a time.
 *
 * No round: when nothing is in flight; after the guest has retransmitted at SND.UNA; after a
 * timeout, when senders ignore duplicate ACKs (RFC 6582 §3.2 step 6); of a flow with SACK, whose
 * guest ignores duplicate ACKs without SACK blocks, and whose blocks would be lies that no later
 * ACK confirms; of a flow with timestamps, without which an ACK is to be dropped (RFC 7323 §3.2).
 *
 * A platform keeps a struct uc_dupack for each flow, zeroed with the flow, asks uc_dupack_due_ns()
 * and, at that time, uc_dupack_take(). It sends that many uc_dupack_segment() through the port to
 * the guest, so that the shadow counts them like the peer's. Port programs do not include this.
 */
#ifndef UC_DUPACK_H
#define UC_DUPACK_H

#include "flow.h"
#include "minmax.h"
#include "track.h"

/* Value of uc_dupack_policy.short_tail_us: fewer than four segments in flight get no more duplicate
 * ACKs than these segments could cause. */
#define UC_DUPACK_NEVER_US 0xffffffffU
/* Default of uc_dupack_policy.least_us, in µs: more than scheduling adds to a round trip on a busy
 * host. */
#define UC_DUPACK_LEAST_US 5000
/* Maximum number of times that the wait before a round doubles. */
#define UC_DUPACK_ROUNDS_MAX 6

struct uc_dupack_policy {
	__u32 least_us; /* the shortest silence before a round */
	/* if fewer than four segments are in flight: send three duplicate ACKs all the same; if
	 * only one is, this much later, by which time peers have sent a delayed ACK.
	 * UC_DUPACK_NEVER_US: only as many as the segments could cause */
	__u32 short_tail_us;
};

/* What the host has done for a flow. */
struct uc_dupack {
	__u32 end;    /* SND.NXT at the last round */
	__u32 rounds; /* rounds since data sent after a round was last acknowledged */
};

/* Returns whether duplicate ACKs can make the flow's guest retransmit. */
static __always_inline __u8 uc_dupack_helps(const struct uc_flow *flow)
{
	__u32 deaf = UC_FLOW_SACK | UC_FLOW_TIMESTAMPS | UC_FLOW_RESENT | UC_FLOW_ADOPTED |
		     UC_FLOW_UNSURE | UC_FLOW_BLIND | UC_FLOW_PROBED;

	return !uc_is_half_open(flow) && !uc_is_closed(flow) && !uc_observes(&flow->policy) &&
	       !(flow->bits & deaf) && flow->ca != UC_CA_LOSS && flow->srtt_us && flow->peer_window;
}

/* Returns the data segments in flight. A FIN goes with the last of them. */
static __always_inline __u32 uc_dupack_segments(const struct uc_flow *flow)
{
	__u32 mss = flow->mss_bytes | !flow->mss_bytes, bytes = uc_flight_bytes(flow);

	if (flow->bits & UC_FLOW_FIN_GUEST && bytes)
		bytes--;
	return (bytes + mss - 1) / mss;
}

/* Returns how many duplicate ACKs the next round sends; 0: none. */
static __always_inline __u32 uc_dupack_count(const struct uc_dupack_policy *policy,
					     const struct uc_flow *flow)
{
	__u32 segments = uc_dupack_segments(flow), most;
	__u32 wanted = flow->dup_acks < UC_DUP_ACKS ? UC_DUP_ACKS - flow->dup_acks : 1;

	if (!segments || !uc_dupack_helps(flow))
		return 0;
	most = segments - 1;
	if (policy->short_tail_us != UC_DUPACK_NEVER_US)
		most = uc_max(most, UC_DUP_ACKS);
	return most > flow->dup_acks ? uc_min(wanted, most - flow->dup_acks) : 0;
}

/* Returns how often the wait has doubled: once for each round, but 0 again when data sent after the
 * last round is acknowledged, since that ACK has timed the path again. */
static __always_inline __u32 uc_dupack_rounds(const struct uc_dupack *dupack,
					      const struct uc_flow *flow)
{
	return uc_after(flow->snd_una, dupack->end) ? 0 : dupack->rounds;
}

/* Returns when the next round is due, if nothing passes until then; 0: no round. */
static __always_inline __u64 uc_dupack_due_ns(const struct uc_dupack *dupack,
					      const struct uc_dupack_policy *policy,
					      const struct uc_flow *flow)
{
	__u64 wait_us = uc_max((flow->srtt_us >> 3) + flow->rttvar_us, policy->least_us);

	if (!uc_dupack_count(policy, flow))
		return 0;
	/* a lone segment gets a round only by this number, so it is not UC_DUPACK_NEVER_US */
	if (uc_dupack_segments(flow) == 1)
		wait_us += policy->short_tail_us;
	wait_us <<= uc_min(uc_dupack_rounds(dupack, flow), UC_DUPACK_ROUNDS_MAX);
	return flow->seen_ns + wait_us * 1000;
}

/* Returns how many duplicate ACKs to send now, and records the round; 0: it is not due. */
static __always_inline __u32 uc_dupack_take(struct uc_dupack *dupack,
					    const struct uc_dupack_policy *policy,
					    const struct uc_flow *flow, __u64 now_ns)
{
	__u64 due_ns = uc_dupack_due_ns(dupack, policy, flow);

	if (!due_ns || now_ns < due_ns)
		return 0;
	dupack->rounds = uc_min(uc_dupack_rounds(dupack, flow) + 1, UC_DUPACK_ROUNDS_MAX);
	dupack->end = flow->snd_nxt;
	return uc_dupack_count(policy, flow);
}

/* Returns the ACK that the guest got last, as it came from the network. */
static __always_inline struct uc_segment uc_dupack_segment(const struct uc_flow *flow)
{
	struct uc_segment segment = {
		.seq = flow->peer_nxt,
		.ack = flow->snd_una,
		.window = flow->peer_window,
		.flags = UC_ACK,
		.direction = UC_TO_GUEST,
	};

	return segment;
}

#endif
