/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * NewReno's shadow in profile `linux`: what a Linux sender does (net/ipv4/tcp_input.c and
 * tcp_cong.c of 6.18). It counts whole segments, grows only while the window limits it, and reduces
 * the window to ssthresh in steps, by proportional rate reduction (RFC 6937).
 *
 * At windows of three to six segments, each of these is worth tens of percent of the rate. So
 * parity with native neighbours needs all of them.
 *
 * While the guest recovers from a loss, its own TCP governs, and the shadow does not throttle.
 *
 * Bound: until SND.UNA reaches `recover`, no mark is answered. Under a guard no such state lasts
 * longer than one repair: a reduction on ECE (UC_CA_CWR) may become a recovery, which sets
 * `recover` once more, and further timeouts of the same data leave it. Without a guard each timeout
 * sets it to SND.NXT, as Linux does. base/core/proofs/repair.c proves it.
 */
#ifndef UC_LAWS_RENO_LINUX_H
#define UC_LAWS_RENO_LINUX_H

#include "../flow.h"
#include "../track.h"
#include "../undo.h"
#include "reno_rfc.h"

#define UC_LINUX_SSTHRESH_MIN 2

/* Returns the largest flight, in segments, of the window that ends at usage_seq. It is stored in
 * reduced_seq, which only flows that count bytes use otherwise. */
static __always_inline __u32 *uc_max_flight(struct uc_reno *reno)
{
	return &reno->reduced_seq;
}

static __always_inline void uc_linux_open(struct uc_flow *flow)
{
	flow->reno.cwnd = flow->policy.initial_window_segments;
	flow->reno.ssthresh = UC_INFINITE_SSTHRESH;
	flow->reno.usage_seq = flow->snd_nxt;
}

static __always_inline __u8 uc_linux_reducing(const struct uc_flow *flow)
{
	return flow->ca == UC_CA_CWR || flow->ca == UC_CA_RECOVERY;
}

/*
 * Returns 1 if the shadow's window limits the guest. Under a coarse window scale the right edge
 * lies a little short of that window, so a guest that cannot send one more whole segment has filled
 * it.
 */
static __always_inline __u8 uc_linux_limited(const struct uc_flow *flow)
{
	__u8 throttled = flow->given_window < flow->peer_window;

	return uc_flight_segments(flow) >= flow->reno.cwnd ||
	       (throttled && uc_before(flow->edge, flow->snd_nxt + flow->mss_bytes));
}

/* Notes whether the window limited the guest in this window of data or the last (Linux's congestion
 * window validation). */
static __always_inline void uc_linux_validate(struct uc_flow *flow)
{
	struct uc_reno *reno = &flow->reno;
	__u32 flight = uc_flight_segments(flow);
	__u8 limited = uc_linux_limited(flow);
	__u8 was_limited = !!(flow->bits & UC_FLOW_LIMITED);

	/* the window of a timeout that may be undone says nothing of the one before */
	if (uc_undo_is_open(flow))
		return;
	if (uc_before(flow->snd_una, reno->usage_seq) && !limited &&
	    (was_limited || flight <= *uc_max_flight(reno)))
		return;
	flow->bits &= ~UC_FLOW_LIMITED;
	if (limited)
		flow->bits |= UC_FLOW_LIMITED;
	*uc_max_flight(reno) = flight;
	reno->usage_seq = flow->snd_nxt;
}

static __always_inline void uc_linux_grow(struct uc_flow *flow, __u32 segments)
{
	struct uc_reno *reno = &flow->reno;
	__u8 slow_start = reno->cwnd < reno->ssthresh;
	__u32 steps;

	if (!(flow->bits & UC_FLOW_LIMITED) &&
	    !(slow_start && reno->cwnd < 2 * *uc_max_flight(reno)))
		return;
	if (slow_start) {
		steps = uc_min(segments, reno->ssthresh - reno->cwnd);
		reno->cwnd += steps;
		segments -= steps;
		if (!segments)
			return;
	}
	/* RFC 5681 §3.1, in segments: a window of them acknowledged is worth one more */
	if (reno->acked >= reno->cwnd) {
		reno->acked = 0;
		reno->cwnd++;
	}
	reno->acked += segments;
	if (reno->acked >= reno->cwnd) {
		steps = reno->acked / (reno->cwnd | !reno->cwnd);
		reno->acked -= steps * reno->cwnd;
		reno->cwnd += steps;
	}
}

static __always_inline __u32 uc_linux_half(const struct uc_flow *flow)
{
	return uc_max(flow->reno.cwnd / 2, UC_LINUX_SSTHRESH_MIN);
}

/* Begins a reduction to ssthresh, which uc_linux_reduce() carries out in steps. */
static __always_inline void uc_linux_begin_reduction(struct uc_flow *flow, __u32 ssthresh)
{
	struct uc_reno *reno = &flow->reno;

	reno->ssthresh = ssthresh;
	reno->recover = flow->snd_nxt;
	reno->prr.prior_cwnd = reno->cwnd;
	reno->prr.delivered = 0;
	reno->prr.out = 0;
	reno->acked = 0;
	/* RFC 3168 §6.1.2: CWR after a reduction of any cause */
	flow->feedback |= UC_FEEDBACK_REDUCED;
}

static __always_inline void uc_linux_cut(struct uc_flow *flow, __u32 ssthresh)
{
	uc_linux_begin_reduction(flow, ssthresh);
	flow->ca = UC_CA_CWR;
}

/* Sets cwnd by RFC 6937 §3, with the slow-start reduction bound once the flight is below ssthresh.
 * segments: newly delivered; advanced: 1 if the ACK acknowledges new data. */
static __always_inline void uc_linux_reduce(struct uc_flow *flow, __u32 segments, __u8 advanced)
{
	struct uc_reno *reno = &flow->reno;
	__u32 flight = uc_flight_segments(flow);
	__u32 may_send = 0;

	if (!segments)
		return;
	reno->prr.delivered += segments;
	if (flight > reno->ssthresh) {
		/* sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out */
		__u32 prior = reno->prr.prior_cwnd | !reno->prr.prior_cwnd;
		__u32 due =
			(__u32)(((__u64)reno->ssthresh * reno->prr.delivered + prior - 1) / prior);

		if (due > reno->prr.out)
			may_send = due - reno->prr.out;
	} else {
		if (reno->prr.delivered > reno->prr.out)
			may_send = reno->prr.delivered - reno->prr.out;
		may_send = uc_max(may_send, segments) + advanced;
		may_send = uc_min(may_send, reno->ssthresh - flight);
	}
	/* the first segment of a reduction always goes out: it carries CWR */
	if (!reno->prr.out && !may_send)
		may_send = 1;
	reno->cwnd = flight + may_send;
	/* a native sender's flight is within the window that it reduces; a guest that ignores
	 * windows would enlarge its window by its flight */
	if (uc_guard_segments(&flow->policy))
		reno->cwnd = uc_min(reno->cwnd, reno->prr.prior_cwnd);
}

static __always_inline void uc_linux_end_reduction(struct uc_flow *flow)
{
	struct uc_reno *reno = &flow->reno;
	__u8 passed;

	if (flow->ca == UC_CA_OPEN)
		return;
	/* a reduction on ECE lasts until data sent after it is acknowledged: by then RFC 3168's CWR
	 * has reached the peer */
	passed = flow->ca == UC_CA_CWR ? uc_after(flow->snd_una, reno->recover)
				       : !uc_before(flow->snd_una, reno->recover);
	if (!passed)
		return;
	if (uc_linux_reducing(flow))
		reno->cwnd = reno->ssthresh;
	flow->ca = UC_CA_OPEN;
}

static __always_inline void uc_linux_timeout(struct uc_flow *flow, struct uc_annex *annex)
{
	struct uc_reno *reno = &flow->reno;
	__u32 ssthresh = reno->ssthresh;

	/* a timeout in the repair of another, or of what a reduction has answered, leaves ssthresh;
	 * but where that may be less than a half, a loss halves */
	if (flow->ca == UC_CA_OPEN || !uc_before(flow->snd_una, reno->recover) ||
	    (flow->ca == UC_CA_CWR && uc_law_has(flow->policy.law, UC_SHALLOW)))
		uc_linux_begin_reduction(flow, uc_linux_half(flow));
	uc_undo_open(flow, annex, reno->cwnd, ssthresh);
	if (!uc_guard_segments(&flow->policy))
		reno->recover = flow->snd_nxt;
	reno->cwnd = 1;
	flow->ca = UC_CA_LOSS;
	flow->losses++;
}

/* Responds to a timeout that was spurious, as tcp_undo_cwnd_reduction() does. */
static __always_inline void uc_linux_undo(struct uc_flow *flow)
{
	struct uc_reno *reno = &flow->reno;
	const struct uc_undo *undo = uc_undo(flow);

	flow->ca = UC_CA_OPEN;
	reno->cwnd = uc_max(reno->cwnd, undo->cwnd);
	reno->ssthresh = uc_max(reno->ssthresh, undo->ssthresh);
	flow->feedback &=
		~UC_FEEDBACK_REDUCED; /* a reduction that is undone has answered no mark */
}

static __always_inline void uc_linux_fast_retransmit(struct uc_flow *flow)
{
	/* no second reduction in the same window; but where the first may be less than a half, a
	 * loss halves (RFC 8257 §3.5 and Linux's tcp_dctcp) */
	if (flow->ca != UC_CA_CWR)
		uc_linux_begin_reduction(flow, uc_linux_half(flow));
	else if (uc_law_has(flow->policy.law, UC_SHALLOW))
		flow->reno.ssthresh = uc_linux_half(flow);
	flow->reno.recover = flow->snd_nxt;
	flow->ca = UC_CA_RECOVERY;
	flow->losses++;
}

/* Reduces the window after an idle time (RFC 5681 §4.1) as Linux does: by a half for each
 * retransmission timeout, down to the restart window; ssthresh keeps three quarters (RFC 2861). */
static __always_inline void uc_linux_restart(struct uc_flow *flow, __u64 idle_us)
{
	struct uc_reno *reno = &flow->reno;
	__u32 restart = uc_min(flow->policy.initial_window_segments, reno->cwnd);
	__u64 halvings = idle_us / uc_rto_us(flow);

	if (!halvings)
		return;
	reno->ssthresh = uc_max(reno->ssthresh, (reno->cwnd >> 1) + (reno->cwnd >> 2));
	reno->cwnd = uc_max(reno->cwnd >> (halvings < 31 ? halvings : 31), restart);
}

static __always_inline void uc_linux_sent(struct uc_flow *flow, struct uc_annex *annex,
					  const struct uc_sample *sample)
{
	if (sample->sent == UC_SENT_TIMEOUT)
		uc_linux_timeout(flow, annex);
	else if (sample->sent == UC_SENT_FAST)
		uc_linux_fast_retransmit(flow);
	else if (sample->sent == UC_SENT_NEW && flow->ca == UC_CA_OPEN)
		uc_linux_restart(flow, sample->idle_us);
	if (uc_linux_reducing(flow))
		flow->reno.prr.out += sample->segments;
	uc_linux_validate(flow);
}

static __always_inline void uc_linux_ack(struct uc_flow *flow, const struct uc_sample *sample)
{
	__u32 segments = sample->acked_bytes ? uc_acked_segments(flow, sample->acked_bytes) : 0;

	if (uc_linux_reducing(flow))
		uc_linux_reduce(flow, segments, sample->acked_bytes != 0);
	else if (segments)
		uc_linux_grow(flow, segments);
	uc_linux_validate(flow);
}

#endif
