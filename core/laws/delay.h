/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Machine `delay`: Swift's window control towards a target delay (Kumar et al., SIGCOMM 2020, §3.1
 * with algorithm 1, §3.5) on the round-trip time that the host measures at the port. The window
 * grows additively while the delay is below the target. Above it, the window decreases in
 * proportion to the excess, once in a round trip. The target rises as the window falls, so that
 * flows converge to equal shares.
 *
 * Differences to Swift, with reasons:
 *  - Swift's hosts subtract their own delay and the receiver's by timestamps in the NIC. A port
 *    sees both delays in the round trip. The receiver's is mostly that of delayed ACKs, and rtt.h
 *    times no ACK that may have waited. The law answers the rest only if two samples in a row
 *    show it.
 *  - Swift paces below a window of one segment. A receive window cannot express that, and a
 *    receiver delays the ACK of a single segment. So the floor is two segments.
 *  - Swift has no slow start: its flows begin with a window that fits its network. Here a flow
 *    begins with slow start (RFC 5681 §3.1) until the delay reaches the target.
 *
 * cwnd, ssthresh and acked count bytes in both profiles.
 *
 * Bound: until SND.UNA reaches `recover`, no delay is answered, and the window does not grow. Under
 * a guard further timeouts of the same data leave `recover`, as in reno_linux.h.
 */
#ifndef UC_LAWS_DELAY_H
#define UC_LAWS_DELAY_H

#include "../flow.h"
#include "../track.h"
#include "reno_rfc.h"

/* Swift's β, the part of the excess that a decrease answers: 0.8, in 1/65536. And max_mdf, the
 * largest part of a window that one decrease takes: 1/2. The additive increase is one segment. */
#define UC_SWIFT_BETA_Q16  52429U
#define UC_SWIFT_MDF_SHIFT 1
/* RETX_RESET_THRESHOLD of Swift's Algorithm 1: consecutive timeouts that reduce the window to its
 * floor. */
#define UC_SWIFT_RETX_RESET 5
/* §3.5: fs_min_cwnd and fs_max_cwnd, the windows of one segment and of 100 between which the target
 * is scaled, as 1/√cwnd in 1/65536. */
#define UC_SWIFT_FS_MIN_Q16 65536U
#define UC_SWIFT_FS_MAX_Q16 6553U

#define UC_DELAY_FLOOR_SEGMENTS 2
#define UC_DELAY_CWND_MAX       (1U << 30)

/* Returns ⌊√value⌋ for value ≤ 2^32, bit by bit. */
static __always_inline __u32 uc_square_root(__u64 value)
{
	__u32 root = 0;

#pragma clang loop unroll(full)
	for (int shift = 16; shift >= 0; shift--) {
		__u64 candidate = root | 1U << shift;
		/* 1 if the candidate's square exceeds the value. Without a branch: the verifier
		 * would follow each path, and every bit would double their number. */
		__u32 beyond = (__u32)((value - candidate * candidate) >> 63);

		root |= (1 - beyond) << shift;
	}
	return root;
}

/*
 * Returns the target for the window by §3.5, flow-based scaling: base target + max(0, min(α/√cwnd +
 * β, fs_range)), with α and β such that the sum runs from fs_range at fs_min_cwnd to 0 at
 * fs_max_cwnd. The operator counts the other term of §3.5, the path's hops, into the target. A root
 * of 16 bits resolves 1/58983 of the range: a microsecond in a range of 59 ms.
 */
static __always_inline __u32 uc_delay_target_us(const struct uc_flow *flow)
{
	const struct uc_delay_parameters *parameters = &flow->policy.parameters.delay;
	__u32 target_us = uc_min(parameters->target_us, UC_RTT_MAX_US);
	__u32 range_us = uc_min(parameters->range_us, UC_RTT_MAX_US);
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;
	__u32 cwnd = uc_max(flow->reno.cwnd, mss_bytes), root_q16;

	if (!range_us)
		return target_us;
	/* 1/√(cwnd/mss) = √(mss/cwnd); cwnd ≥ mss keeps it within one */
	root_q16 = uc_square_root(((__u64)mss_bytes << 32) / cwnd);
	if (root_q16 <= UC_SWIFT_FS_MAX_Q16)
		return target_us;
	return target_us + (__u32)((__u64)range_us * (root_q16 - UC_SWIFT_FS_MAX_Q16) /
				   (UC_SWIFT_FS_MIN_Q16 - UC_SWIFT_FS_MAX_Q16));
}

static __always_inline __u32 uc_delay_floor_bytes(const struct uc_flow *flow)
{
	return UC_DELAY_FLOOR_SEGMENTS * flow->mss_bytes;
}

/* Discards what is known of the delay: all timed segments were sent before the last decrease. */
static __always_inline void uc_delay_forget(struct uc_flow *flow, struct uc_annex *annex)
{
	uc_stop_timers(flow, annex);
	annex->delay.last_us = 0;
	annex->delay.before_us = 0;
}

static __always_inline void uc_delay_open(struct uc_flow *flow, struct uc_annex *annex)
{
	/* RFC 5681 §3.1: one segment if the SYN or SYN-ACK was lost; here no less than the floor */
	__u32 segments = uc_syns(flow) > 1 ? 1 : flow->policy.initial_window_segments;

	flow->reno.cwnd = uc_max(segments * flow->mss_bytes, uc_delay_floor_bytes(flow));
	flow->reno.ssthresh = UC_INFINITE_SSTHRESH;
	uc_delay_forget(flow, annex);
}

/* Returns 1 if data sent after the last window decrease was acknowledged. Swift's Algorithm 1 tests
 * now − t_last_decrease ≥ rtt instead. */
static __always_inline __u8 uc_delay_can_decrease(const struct uc_flow *flow)
{
	return uc_after(flow->snd_una, flow->reno.reduced_seq);
}

static __always_inline void uc_delay_reduce(struct uc_flow *flow, __u32 cwnd)
{
	struct uc_reno *reno = &flow->reno;

	reno->cwnd = uc_max(cwnd, uc_delay_floor_bytes(flow));
	reno->ssthresh = reno->cwnd;
	reno->acked = 0;
	reno->reduced_seq = flow->snd_nxt;
}

static __always_inline void uc_delay_decrease(struct uc_flow *flow, struct uc_annex *annex,
					      __u32 cwnd)
{
	uc_delay_reduce(flow, cwnd);
	uc_delay_forget(flow, annex);
}

/* Returns what a decrease leaves of cwnd by algorithm 1, rounded up:
 * cwnd · max(1 − β·(delay − target)/delay, 1 − max_mdf). */
static __always_inline __u32 uc_delay_remains(__u32 cwnd, __u32 delay_us, __u32 target_us)
{
	__u64 excess_q16 = ((__u64)(delay_us - target_us) << 16) / (delay_us | !delay_us);
	__u32 cut = (__u32)((__u64)cwnd * excess_q16 * UC_SWIFT_BETA_Q16 >> 32);

	return cwnd - uc_min(cwnd >> UC_SWIFT_MDF_SHIFT, cut);
}

/* Notes whether the guest fills the window: it may grow only if it, or the one before it, was
 * filled (Linux's congestion window validation). */
static __always_inline void uc_delay_validate(struct uc_flow *flow)
{
	__u8 throttled = flow->given_window < flow->peer_window;
	__u8 filled = uc_flight_bytes(flow) + flow->mss_bytes > flow->reno.cwnd ||
		      (throttled && uc_before(flow->edge, flow->snd_nxt + flow->mss_bytes));

	if (filled) {
		flow->bits |= UC_FLOW_LIMITED;
		flow->reno.usage_seq = flow->snd_nxt;
	}
}

/* Increases cwnd as in algorithm 1, counted as in RFC 5681: one segment for cwnd bytes
 * acknowledged. */
static __always_inline void uc_delay_increase(struct uc_flow *flow, __u32 acked_bytes)
{
	struct uc_reno *reno = &flow->reno;
	__u32 grown = reno->cwnd;

	if (reno->cwnd < reno->ssthresh) {
		grown += uc_min(acked_bytes, UC_SLOW_START_SEGMENTS * flow->mss_bytes);
	} else {
		reno->acked += uc_min(acked_bytes, reno->cwnd);
		if (reno->acked >= reno->cwnd) {
			reno->acked -= reno->cwnd;
			grown += flow->mss_bytes;
		}
	}
	reno->cwnd = uc_min(grown, UC_DELAY_CWND_MAX);
}

/* Takes back the decrease of a timeout that was spurious: undo.h. */
static __always_inline void uc_delay_undo(struct uc_flow *flow)
{
	struct uc_reno *reno = &flow->reno;
	const struct uc_undo *undo = uc_undo(flow);

	flow->ca = UC_CA_OPEN;
	flow->backoffs = 0;
	reno->cwnd = uc_max(reno->cwnd, undo->cwnd);
	reno->ssthresh = uc_max(reno->ssthresh, undo->ssthresh);
	reno->reduced_seq = flow->snd_una - 1;
}

/* Judges a timeout by an ACK. Once it counts as a loss, the samples from before are discarded;
 * until then they stay, or a guest could be rid of them by feigned timeouts. */
static __always_inline void uc_delay_judge(struct uc_flow *flow, struct uc_annex *annex,
					   const struct uc_sample *sample)
{
	__u8 open = uc_undo_is_open(flow);

	if (uc_undo_judge(flow, sample->acked_bytes, sample->marked))
		uc_delay_undo(flow);
	else if (open && !uc_undo_is_open(flow))
		uc_delay_forget(flow, annex);
}

/* Takes in an ACK: algorithm 1, "on receiving ACK". */
static __always_inline void uc_delay_ack(struct uc_flow *flow, struct uc_annex *annex,
					 const struct uc_sample *sample)
{
	struct uc_delay *delay = &annex->delay;
	__u32 target_us, least_us;

	uc_delay_judge(flow, annex, sample);
	if (!sample->acked_bytes)
		return;
	/* segments may have grown since */
	flow->reno.cwnd = uc_max(flow->reno.cwnd, uc_delay_floor_bytes(flow));
	if (flow->ca != UC_CA_OPEN && !uc_before(flow->snd_una, flow->reno.recover))
		flow->ca = UC_CA_OPEN;
	if (flow->bits & UC_FLOW_LIMITED && uc_after(flow->snd_una, flow->reno.usage_seq))
		flow->bits &= ~UC_FLOW_LIMITED;
	if (sample->rtt_us) {
		delay->before_us = delay->last_us;
		delay->last_us = sample->rtt_us;
	}
	if (flow->ca != UC_CA_OPEN)
		return;
	uc_rfc_pull_along(flow);
	target_us = uc_delay_target_us(flow);
	/* One sample decides on growth; a decrease needs two in a row. A guest may send one segment
	 * of a window of two, if the second is a few bytes too large for the window's scale. It
	 * then never gives a sample. So a flow with a single segment in flight may grow without
	 * one. */
	if (delay->last_us < target_us) {
		if ((delay->last_us || uc_was_alone(flow, sample->acked_bytes)) &&
		    flow->bits & UC_FLOW_LIMITED)
			uc_delay_increase(flow, sample->acked_bytes);
		return;
	}
	least_us = uc_min(delay->before_us, delay->last_us);
	if (!uc_delay_can_decrease(flow) || !least_us || least_us < target_us)
		return;
	uc_delay_decrease(flow, annex, uc_delay_remains(flow->reno.cwnd, least_us, target_us));
	flow->cuts++;
}

/* Takes in a loss: algorithm 1, "on retransmit timeout" and "on fast recovery". It leaves 1 −
 * max_mdf of the window, once in a round trip, and the floor after several timeouts in a row. */
static __always_inline void uc_delay_lost(struct uc_flow *flow, struct uc_annex *annex,
					  __u8 timeout)
{
	__u32 cwnd = flow->reno.cwnd;
	__u8 decreases = uc_delay_can_decrease(flow);

	if (timeout)
		uc_undo_open(flow, annex, cwnd, decreases ? flow->reno.ssthresh : 0);
	flow->backoffs += timeout && flow->backoffs < 255;
	if (flow->backoffs >= UC_SWIFT_RETX_RESET) {
		uc_delay_reduce(flow, 0);
		decreases = 1;
	} else if (decreases) {
		uc_delay_reduce(flow, cwnd - (cwnd >> UC_SWIFT_MDF_SHIFT));
	}
	if (flow->ca == UC_CA_OPEN || !uc_before(flow->snd_una, flow->reno.recover) ||
	    !uc_guard_segments(&flow->policy))
		flow->reno.recover = flow->snd_nxt;
	flow->ca = timeout ? UC_CA_LOSS : UC_CA_RECOVERY;
	flow->losses++;
	if (decreases && !uc_undo_is_open(flow))
		uc_delay_forget(flow, annex);
}

/* Reduces the window to the restart window after an idle retransmission timeout (RFC 5681 §4.1),
 * and discards the samples, which are as old. The segment that ends the pause is timed already. */
static __always_inline void uc_delay_restart(struct uc_flow *flow, struct uc_annex *annex)
{
	__u32 initial = flow->policy.initial_window_segments * flow->mss_bytes;

	flow->reno.cwnd = uc_min(flow->reno.cwnd, uc_max(initial, uc_delay_floor_bytes(flow)));
	annex->delay.last_us = 0;
	annex->delay.before_us = 0;
}

static __always_inline void uc_delay_sent(struct uc_flow *flow, struct uc_annex *annex,
					  const struct uc_sample *sample)
{
	enum uc_sent sent = sample->sent;

	if (sent == UC_SENT_TIMEOUT || sent == UC_SENT_FAST)
		uc_delay_lost(flow, annex, sent == UC_SENT_TIMEOUT);
	else if (sent == UC_SENT_NEW && sample->idle_us > uc_rto_us(flow))
		uc_delay_restart(flow, annex);
	uc_delay_validate(flow);
}

/* Returns the window in bytes from snd_una on. During recovery each duplicate ACK adds a segment,
 * since one has left the network (RFC 5681 §3.2 step 4), until the next ACK of new data. */
static __always_inline __u32 uc_delay_window_bytes(const struct uc_flow *flow)
{
	__u32 left = flow->ca == UC_CA_RECOVERY ? flow->dup_acks * flow->mss_bytes : 0;

	return uc_max(flow->reno.cwnd + left, uc_undo_probe_bytes(flow));
}

#endif
