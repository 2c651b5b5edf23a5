/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * NewReno's shadow in profile `rfc`: RFC 5681 and RFC 6582 to the letter without a guard, in bytes.
 * vCC's theorems are about this sender.
 *
 * Bound: a recovery answers no mark until SND.UNA passes `recover`, which is set once. Each timeout
 * sets it again, but also reduces the window to one segment.
 */
#ifndef UC_LAWS_RENO_RFC_H
#define UC_LAWS_RENO_RFC_H

#include "../flow.h"
#include "../minmax.h"
#include "../track.h"
#include "../undo.h"

/* The timer of RFC 6298 with Linux's numbers: (2.3) clock granularity; (2.5) and (5.5) the longest
 * timeout after backing off; (5.7) the first timeout after a lost SYN. */
#define UC_RFC_RTO_GRAIN_US    1000
#define UC_RFC_RTO_MAX_US      120000000
#define UC_RFC_RTO_LOST_SYN_US 3000000
#define UC_RFC_BACKOFFS_MAX    10
/* RFC 3465 §2.3: slow start that counts bytes takes two segments of an ACK at most. */
#define UC_SLOW_START_SEGMENTS 2

static __always_inline __u32 uc_rfc_rto_us(const struct uc_flow *flow)
{
	__u32 rto_us = uc_syns(flow) > 1 ? UC_RFC_RTO_LOST_SYN_US : UC_RTO_INITIAL_US;
	__u64 backed_off_us;

	if (flow->srtt_us)
		rto_us = (flow->srtt_us >> 3) + uc_max(flow->rttvar_us, UC_RFC_RTO_GRAIN_US);
	/* (2.4) holds the minimum against the sum */
	backed_off_us = (__u64)uc_max(rto_us, UC_RTO_MIN_US)
			<< uc_min(flow->backoffs, UC_RFC_BACKOFFS_MAX);
	return backed_off_us < UC_RFC_RTO_MAX_US ? (__u32)backed_off_us : UC_RFC_RTO_MAX_US;
}

static __always_inline void uc_rfc_open(struct uc_flow *flow)
{
	/* RFC 5681 §3.1: one segment if the SYN or SYN-ACK was lost */
	__u32 segments = uc_syns(flow) > 1 ? 1 : flow->policy.initial_window_segments;

	flow->reno.cwnd = segments * flow->mss_bytes;
	flow->reno.ssthresh = UC_INFINITE_SSTHRESH; /* RFC 5681 §3.1: arbitrarily high */
}

/* Returns half of `bytes`, but two segments at least (RFC 5681 equation 4). */
static __always_inline __u32 uc_rfc_half(const struct uc_flow *flow, __u32 bytes)
{
	return uc_max(bytes / 2, 2 * flow->mss_bytes);
}

/*
 * Grows the window. `repairs`: the ACK comes in the repair of a timeout, or ends it. RFC 5681's
 * slow start counts ACKs, and a guest that sends out of order makes its peer acknowledge each
 * segment at once. So under a guard slow start counts bytes; not in the repair of a timeout, where
 * an ACK may cover what the peer had before (RFC 3465 §2.3).
 */
static __always_inline void uc_rfc_grow(struct uc_flow *flow, __u32 acked_bytes, __u8 repairs)
{
	struct uc_reno *reno = &flow->reno;

	if (reno->cwnd < reno->ssthresh) {
		/* RFC 5681 equation (2) */
		__u32 most_bytes = flow->mss_bytes;

		if (uc_guard_segments(&flow->policy) && !repairs)
			most_bytes *= UC_SLOW_START_SEGMENTS;
		reno->cwnd += uc_min(acked_bytes, most_bytes);
		return;
	}
	/* RFC 5681 §3.1: count the bytes acknowledged; a window of them is worth a segment */
	reno->acked += acked_bytes;
	if (reno->acked >= reno->cwnd) {
		reno->acked -= reno->cwnd;
		reno->cwnd += flow->mss_bytes;
	}
}

/* Returns whether fast recovery begins with this ACK (RFC 6582 §3.2 step 2): the third duplicate,
 * if it covers more than recover. */
static __always_inline __u8 uc_rfc_shows_loss(const struct uc_flow *flow,
					      const struct uc_sample *sample)
{
	return sample->duplicate && flow->dup_acks == UC_DUP_ACKS &&
	       uc_after(flow->snd_una - 1, flow->reno.recover);
}

static __always_inline void uc_rfc_enter_recovery(struct uc_flow *flow)
{
	struct uc_reno *reno = &flow->reno;

	reno->ssthresh = uc_rfc_half(flow, uc_flight_bytes(flow));
	reno->recover = flow->snd_nxt - 1;
	reno->reduced_seq = flow->snd_nxt;
	/* step 3: the segments that have left the network, three unless a guest with SACK needs
	 * fewer reports of a hole (RFC 6675 §5 step 4.1) */
	reno->cwnd = reno->ssthresh + uc_min(flow->dup_acks, UC_DUP_ACKS) * flow->mss_bytes;
	reno->acked = 0;
	flow->ca = UC_CA_RECOVERY;
	flow->bits &= ~UC_FLOW_RESENT; /* in the repair before */
	/* RFC 3168 §6.1.2: CWR after a reduction of any cause */
	flow->feedback |= UC_FEEDBACK_REDUCED;
	flow->losses++;
}

/* Takes in an ACK during fast recovery: RFC 6582 §3.2 steps 4 and 5. */
static __always_inline void uc_rfc_recovery_ack(struct uc_flow *flow,
						const struct uc_sample *sample)
{
	struct uc_reno *reno = &flow->reno;

	if (sample->duplicate) {
		reno->cwnd += flow->mss_bytes;
		return;
	}
	if (uc_after(flow->snd_una, reno->recover)) {
		/* full acknowledgement, option (1) */
		reno->cwnd = uc_min(reno->ssthresh, uc_max(uc_flight_bytes(flow), flow->mss_bytes) +
							    flow->mss_bytes);
		flow->ca = UC_CA_OPEN;
		return;
	}
	/* partial: deflate by what was acknowledged, add back one segment */
	reno->cwnd -= uc_min(reno->cwnd, sample->acked_bytes);
	if (sample->acked_bytes >= flow->mss_bytes)
		reno->cwnd += flow->mss_bytes;
	reno->cwnd = uc_max(reno->cwnd, flow->mss_bytes);
}

/* Returns pipe_prev of RFC 4015 §3.2. Under a guard it is ssthresh: data that the guest sent beyond
 * that must not enlarge its window. */
static __always_inline __u32 uc_rfc_pipe_bytes(const struct uc_flow *flow)
{
	if (uc_guard_segments(&flow->policy))
		return flow->reno.ssthresh;
	return uc_max(uc_flight_bytes(flow), flow->reno.ssthresh);
}

/* Responds to a timeout that was spurious: RFC 5682 §2.1 step 3b and RFC 4015 §3.2 step (5). */
static __always_inline void uc_rfc_undo(struct uc_flow *flow, __u32 acked_bytes)
{
	struct uc_reno *reno = &flow->reno;
	struct uc_undo undo = *uc_undo(flow);
	__u32 initial_bytes = flow->policy.initial_window_segments * flow->mss_bytes;
	__u32 bytes = uc_flight_bytes(flow) + uc_min(acked_bytes, initial_bytes);

	uc_undo_close(flow);
	flow->ca = UC_CA_OPEN;
	flow->backoffs = 0;
	if (!undo.cwnd) {
		reno->cwnd = reno->ssthresh;
		return;
	}
	if (uc_guard_segments(&flow->policy)) {
		bytes = uc_min(bytes, undo.cwnd);
		/* or feigned timeouts would keep losses from their recovery */
		reno->recover = flow->snd_una - 2;
	}
	/* a guest with SACK repairs the next loss by its reports */
	if (flow->bits & UC_FLOW_SACK)
		reno->recover = flow->snd_una - 2;
	reno->ssthresh = undo.ssthresh;
	reno->cwnd = uc_max(bytes, flow->mss_bytes);
	/* a reduction that is undone has answered no mark */
	reno->reduced_seq = flow->snd_una;
}

static __always_inline void uc_rfc_timeout(struct uc_flow *flow, struct uc_annex *annex)
{
	struct uc_reno *reno = &flow->reno;

	uc_undo_open(flow, annex, reno->cwnd, uc_rfc_pipe_bytes(flow));
	/* RFC 5681 §3.1: a segment that times out again does not lower ssthresh again */
	if (!(flow->bits & UC_FLOW_TIMED_OUT))
		reno->ssthresh = uc_rfc_half(flow, uc_flight_bytes(flow));
	flow->bits |= UC_FLOW_TIMED_OUT;
	flow->feedback |= UC_FEEDBACK_REDUCED;
	flow->backoffs += flow->backoffs < UC_RFC_BACKOFFS_MAX; /* RFC 6298 (5.5) */
	reno->recover = flow->snd_nxt - 1;                      /* RFC 6582 §3.2 step 6 */
	reno->reduced_seq = flow->snd_nxt;
	reno->cwnd = flow->mss_bytes; /* RFC 5681: the loss window */
	reno->acked = 0;
	flow->ca = UC_CA_LOSS;
	flow->losses++;
}

static __always_inline void uc_rfc_sent(struct uc_flow *flow, struct uc_annex *annex,
					const struct uc_sample *sample)
{
	enum uc_sent sent = sample->sent;
	/* duplicates of data below recover start no fast retransmit (RFC 6582 §3.2 step 2): a
	 * retransmission after them is the timer's, unless the guest uses SACK */
	__u8 timer =
		sent == UC_SENT_TIMEOUT || (sent == UC_SENT_FAST && !(flow->bits & UC_FLOW_SACK));

	if (timer) {
		uc_rfc_timeout(flow, annex);
	} else if (sent == UC_SENT_FAST && uc_after(flow->snd_una - 1, flow->reno.recover)) {
		uc_rfc_enter_recovery(flow);
		flow->bits |= UC_FLOW_RESENT; /* by this segment */
	} else if (sent == UC_SENT_AGAIN) {
		/* the guest repairs: RFC 5682 §2.1 steps 2a and 3a */
		uc_undo_close(flow);
	} else if (sent == UC_SENT_NEW && sample->idle_us > uc_rfc_rto_us(flow)) {
		/* RFC 5681 §4.1: after an idle retransmission timeout, at most the restart window
		 */
		flow->reno.cwnd = uc_min(flow->reno.cwnd,
					 flow->policy.initial_window_segments * flow->mss_bytes);
	}
}

static __always_inline void uc_rfc_cut(struct uc_flow *flow, __u32 ssthresh)
{
	struct uc_reno *reno = &flow->reno;

	reno->ssthresh = ssthresh;
	/* below two segments the floor of equation (4) would answer a mark by a larger window */
	reno->cwnd = uc_min(reno->cwnd, ssthresh);
	reno->acked = 0;
	reno->reduced_seq = flow->snd_nxt;
	flow->feedback |= UC_FEEDBACK_REDUCED;
	flow->ca = UC_CA_OPEN;
}

/* Moves sequence numbers that snd_una has passed along with it: comparisons are circular, so none
 * may fall 2 GiB behind. */
static __always_inline void uc_rfc_pull_along(struct uc_flow *flow)
{
	if (uc_after(flow->snd_una - 1, flow->reno.recover))
		flow->reno.recover = flow->snd_una - 2;
	if (uc_after(flow->snd_una, flow->reno.reduced_seq))
		flow->reno.reduced_seq = flow->snd_una - 1;
}

static __always_inline void uc_rfc_ack(struct uc_flow *flow, const struct uc_sample *sample)
{
	__u8 repairs;

	if (flow->ca == UC_CA_RECOVERY) {
		if (sample->duplicate || sample->acked_bytes)
			uc_rfc_recovery_ack(flow, sample);
		return;
	}
	repairs = flow->ca == UC_CA_LOSS;
	if (repairs && uc_after(flow->snd_una, flow->reno.recover))
		flow->ca = UC_CA_OPEN;
	if (uc_rfc_shows_loss(flow, sample))
		uc_rfc_enter_recovery(flow);
	else if (sample->acked_bytes)
		uc_rfc_grow(flow, sample->acked_bytes, repairs);
	if (flow->ca == UC_CA_OPEN)
		uc_rfc_pull_along(flow);
}

#endif
