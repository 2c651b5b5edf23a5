/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the host learns of a guest's TCP from the segments that pass.
 */
#ifndef UC_TRACK_H
#define UC_TRACK_H

#include "feedback.h"
#include "flow.h"
#include "minmax.h"
#include "rtt.h"
#include "sack.h"
#include "sample.h"
#include "segment.h"
#include "undo.h"

/* The third duplicate ACK indicates a lost segment (RFC 5681 §3.2). */
#define UC_DUP_ACKS 3
/* How often in a row a smaller payload must come to become the new segment size: the last segment
 * of a write is small once, all segments on a path with a smaller MTU are. */
#define UC_MSS_CONFIRMATIONS 8

/*
 * Tells why the guest retransmits a segment: in answer to ACKs (RFC 5681 §3.2, RFC 6582), or
 * because its timer fired. A guest with SACK (RFC 6675, RACK) may need fewer than three duplicate
 * ACKs.
 */
static __always_inline enum uc_sent uc_classify_retransmission(const struct uc_flow *flow,
							       __u32 seq, __u32 end)
{
	__u8 sack = !!(flow->bits & UC_FLOW_SACK);

	/* a window probe (RFC 9293 §3.8.6.1) indicates no loss */
	if (seq != flow->snd_una || !flow->peer_window)
		return UC_SENT_AGAIN;
	/* retransmitted twice: after a timeout the guest retransmits all in flight once, in order
	 * (RFC 5681 §3.1 with SND.NXT set back), and repeats a segment only after another
	 * timeout */
	if (flow->bits & UC_FLOW_RESENT ||
	    (flow->ca == UC_CA_LOSS && uc_before(seq, flow->resent_end)))
		return UC_SENT_TIMEOUT;
	/* a guest that probes with new data (undo.h) repeats old data after the next ACK only */
	if (uc_undo_probes(flow) && uc_after(flow->snd_nxt, flow->reno.recover + 1))
		return UC_SENT_TIMEOUT;
	/* RFC 6582 §3.2 step 5: after a partial ACK the next hole goes out without a new signal */
	if (flow->ca == UC_CA_RECOVERY || flow->ca == UC_CA_LOSS || uc_undo_repairs(flow, seq))
		return UC_SENT_AGAIN;
	/* RFC 6675, RACK: one report of a hole may do, also in an ACK of new data */
	if (flow->dup_acks >= UC_DUP_ACKS || (sack && flow->repeated))
		return UC_SENT_FAST;
	/* RFC 8985 §7: a tail loss probe repeats the last segment. If that is alone in flight, the
	 * probe looks like a timeout; it counts as one when it comes a second time */
	if (sack && end == flow->snd_nxt &&
	    uc_flight_bytes(flow) <= flow->mss_bytes + !!(flow->bits & UC_FLOW_FIN_GUEST))
		return UC_SENT_AGAIN;
	return UC_SENT_TIMEOUT;
}

/* Records a retransmission. A guest with SACK retransmits holes far ahead, and may repeat one
 * without a timeout (RACK), so of its retransmissions only the one at SND.UNA counts. */
static __always_inline void uc_remember_resent(struct uc_flow *flow, enum uc_sent sent, __u32 seq,
					       __u32 end)
{
	uc_undo_resent(flow, end);
	if (seq == flow->snd_una)
		flow->bits |= UC_FLOW_RESENT;
	else if (flow->bits & UC_FLOW_SACK)
		return;
	if (sent == UC_SENT_TIMEOUT || uc_after(end, flow->resent_end))
		flow->resent_end = end;
}

/* Returns the payload of one of the guest's segments on the wire, at most the agreed MSS; not 0. */
static __always_inline __u32 uc_wire_bytes(const struct uc_flow *flow,
					   const struct uc_segment *segment)
{
	return uc_max(uc_min(segment->wire_payload_bytes, flow->mss_agreed_bytes), 1);
}

/*
 * Sets the segment size. Under a guard, larger segments make no larger window: a window that counts
 * segments is converted. Otherwise a guest could collect a window of small segments, and use it for
 * large ones.
 */
static __always_inline void uc_set_mss(struct uc_flow *flow, __u16 mss_bytes)
{
	__u64 old_bytes = flow->mss_bytes;
	struct uc_reno *reno = &flow->reno;
	__u32 new_bytes = mss_bytes | !mss_bytes;

	flow->mss_bytes = mss_bytes;
	flow->mss_candidate_seen = 0;
	/* what was below another size says nothing of this one */
	if (new_bytes != old_bytes)
		flow->bits &= ~(UC_FLOW_NODELAY | UC_FLOW_RUNTS);
	if (!uc_guard_segments(&flow->policy) || new_bytes <= old_bytes ||
	    !uc_counts_segments(flow))
		return;
	uc_undo_close(flow);
	reno->cwnd = uc_max((__u32)(reno->cwnd * old_bytes / new_bytes), 1);
	if (reno->ssthresh != UC_INFINITE_SSTHRESH)
		reno->ssthresh = uc_max((__u32)(reno->ssthresh * old_bytes / new_bytes), 2);
}

/* Learns the guest's segment size from new data. A segment larger than both ends have agreed on
 * teaches nothing: the size is the law's unit, so it would enlarge every window and the guard's
 * slack. */
static __always_inline void uc_learn_mss(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u16 wire_bytes = segment->wire_payload_bytes;

	if (wire_bytes < UC_MSS_MIN_BYTES || wire_bytes > flow->mss_agreed_bytes)
		return;

	if (wire_bytes >= flow->mss_bytes || segment->payload_bytes > wire_bytes) {
		/* at least as large as before, or cut by the guest's TSO: certain */
		uc_set_mss(flow, wire_bytes);
		return;
	}
	if (wire_bytes != flow->mss_candidate_bytes || segment->flags & UC_PSH) {
		flow->mss_candidate_bytes = wire_bytes;
		flow->mss_candidate_seen = 0;
		return;
	}
	if (++flow->mss_candidate_seen >= UC_MSS_CONFIRMATIONS)
		uc_set_mss(flow, wire_bytes);
}

/* Learns from a sub-MSS segment how the guest fills windows, and whether it follows Nagle's rule:
 * one such segment in flight (RFC 896, RFC 9293 §3.7.4). */
static __always_inline void uc_learn_runt(struct uc_flow *flow, const struct uc_segment *segment,
					  __u32 end)
{
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;

	if (segment->payload_bytes % mss_bytes == 0 || segment->flags & UC_FIN)
		return;
	if (uc_after(flow->runt_seq, flow->snd_una))
		flow->bits |= UC_FLOW_NODELAY;
	if (!uc_after(flow->edge, end))
		flow->bits |= UC_FLOW_RUNTS;
	/* shorter than the window's unit: a result of rounding the window up (window.h) */
	if (segment->payload_bytes % mss_bytes < 1U << uc_wscale(flow))
		flow->bits &= ~UC_FLOW_PAIRS;
	/* it filled a room a little short of three segments: they left in one burst */
	else if (uc_offered_segments(flow) == 3 && !uc_after(flow->edge, end))
		flow->bits = (flow->bits & ~UC_FLOW_PAIRS) | UC_FLOW_BULK;
	flow->runt_seq = end;
	flow->runt_short_bytes = mss_bytes - segment->payload_bytes % mss_bytes;
}

/*
 * Learns from PSH whether the guest sends three segments in one piece (window.h), where the
 * window's unit is one byte: there it fills every room with full segments, so that uc_learn_runt()
 * sees none.
 */
static __always_inline void uc_learn_piece(struct uc_flow *flow, const struct uc_segment *segment,
					   __u32 end)
{
	__u32 offered = uc_offered_segments(flow), segments;

	if (uc_wscale(flow))
		return;
	segments = uc_piece_segments(flow) +
		   segment->payload_bytes / (flow->mss_bytes | !flow->mss_bytes);
	if (!(segment->flags & UC_PSH)) {
		uc_set_offered(flow, offered, segments);
		return;
	}
	if (segments == 3 && offered == 3 && !uc_after(flow->edge, end))
		flow->bits |= UC_FLOW_BULK;
	uc_set_offered(flow, offered, 0);
}

/* Returns whether a segment of the guest is the one that others overtook. */
static __always_inline __u8 uc_fills_hole(const struct uc_flow *flow,
					  const struct uc_segment *segment)
{
	return flow->bits & UC_FLOW_HOLE && segment->seq == flow->hole_seq;
}

/* Returns the kind of a segment of the guest, UC_SENT_*, and advances SND.NXT. */
static __always_inline enum uc_sent uc_track_sent(struct uc_flow *flow, struct uc_annex *annex,
						  const struct uc_segment *segment, __u64 now_ns)
{
	__u32 end = uc_segment_end(segment);
	__u8 guarded = !!uc_guard_segments(&flow->policy);
	enum uc_sent sent;

	if (segment->flags & UC_FIN)
		flow->bits |= UC_FLOW_FIN_GUEST;
	if (end == segment->seq)
		return UC_SENT_NOTHING;
	/* a window probe: one new byte into a closed window, which the peer may refuse (RFC 9293
	 * §3.8.6.1) */
	if (segment->seq == flow->snd_nxt && segment->payload_bytes == 1 && !flow->peer_window) {
		flow->bits |= UC_FLOW_PROBED;
		return UC_SENT_NOTHING;
	}
	/* no retransmission: other segments overtook it before the port (several queues). Nor new
	 * data: it was in a SYN whose data the peer did not take (RFC 7413). But after the third
	 * duplicate ACK it repairs a loss, which lay before the port */
	if (uc_fills_hole(flow, segment)) {
		flow->bits &= ~UC_FLOW_HOLE;
		if (segment->seq != flow->snd_una || flow->dup_acks < UC_DUP_ACKS) {
			if (uc_after(end, flow->snd_nxt)) {
				flow->snd_nxt = end;
				flow->sent_tick = uc_tick(now_ns, UC_IDLE_TICK_SHIFT);
			}
			return UC_SENT_AGAIN;
		}
	}
	if (uc_before(segment->seq, flow->snd_nxt)) {
		sent = uc_classify_retransmission(flow, segment->seq, end);
		uc_remember_resent(flow, sent, segment->seq, end);
		/* Karn's rule (RFC 6298 §3): the ACK of data sent twice is no sample. Under a guard
		 * it is one of the first time, and new data behind old is timed, too: a guest must
		 * not be rid of samples by sending twice */
		if (!guarded)
			uc_stop_timing(flow, annex);
		if (uc_after(end, flow->snd_nxt)) {
			flow->snd_nxt = end;
			if (guarded)
				uc_start_timing(flow, annex, now_ns);
		}
		/* what the peer has is no use of the window: it must not hide a pause */
		if (!guarded || uc_after(end, flow->snd_una))
			flow->sent_tick = uc_tick(now_ns, UC_IDLE_TICK_SHIFT);
		return sent;
	}
	if (segment->seq != flow->snd_nxt) {
		flow->bits |= UC_FLOW_HOLE;
		flow->hole_seq = flow->snd_nxt;
	}
	uc_learn_mss(flow, segment);
	uc_learn_runt(flow, segment, end);
	uc_learn_piece(flow, segment, end);
	flow->snd_nxt = end;
	flow->sent_tick = uc_tick(now_ns, UC_IDLE_TICK_SHIFT);
	flow->bits &= ~UC_FLOW_PROBED;
	uc_start_timing(flow, annex, now_ns);
	return UC_SENT_NEW;
}

/* Returns whether an ACK of SND.UNA repeats it by number: data in flight, no data of the peer, no
 * SYN or FIN (RFC 5681 §2 (a) to (d)). */
static __always_inline __u8 uc_repeats(const struct uc_flow *flow, const struct uc_segment *segment)
{
	return uc_flight_bytes(flow) && !segment->payload_bytes &&
	       !(segment->flags & (UC_SYN | UC_FIN));
}

/* Returns whether the port keeps the law's window in this ACK if it is a duplicate (law.h): then a
 * guest without SACK sees the window of the ACK before, whatever the receiver's is by now. */
static __always_inline __u8 uc_keeps_window(const struct uc_flow *flow,
					    const struct uc_segment *segment)
{
	return !uc_observes(&flow->policy) && flow->given_window < flow->peer_window &&
	       flow->given_window <= segment->window &&
	       (__u32)flow->given_window << uc_wscale(flow) >= uc_flight_bytes(flow);
}

/*
 * Returns whether an ACK of SND.UNA is a duplicate for the guest: with SACK, one whose blocks
 * report new data (sack.h). Without SACK, in profile `rfc`, any ACK that repeats the number. In
 * profile `linux`, the window that the port writes must not have grown, too (RFC 5681 §2 (e)).
 */
static __always_inline __u8 uc_is_duplicate(const struct uc_flow *flow,
					    const struct uc_segment *segment)
{
	if (flow->bits & UC_FLOW_SACK)
		return segment->options & UC_OPT_SACK && segment->mss_bytes != flow->repeated &&
		       uc_flight_bytes(flow);
	return uc_repeats(flow, segment) &&
	       (flow->policy.profile == UC_PROFILE_RFC ||
		(segment->window && segment->window <= flow->peer_window) ||
		uc_keeps_window(flow, segment));
}

/* Takes in an ACK that acknowledges nothing new. Returns whether it is a duplicate, and notes what
 * shows a hole at SND.UNA: with SACK the mark of the last blocks, otherwise 1 after any ACK that
 * has repeated the number. */
static __always_inline __u8 uc_note_repeated(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u8 duplicate = uc_is_duplicate(flow, segment);

	if (!(flow->bits & UC_FLOW_SACK))
		flow->repeated |= uc_repeats(flow, segment);
	else if (segment->options & UC_OPT_SACK)
		flow->repeated = segment->mss_bytes;
	flow->dup_acks += duplicate & (flow->dup_acks < 255);
	return duplicate;
}

/* Updates the flow for an ACK to the guest, and returns what a law is told of it. */
static __always_inline struct uc_sample uc_track_ack(struct uc_flow *flow, struct uc_annex *annex,
						     const struct uc_segment *segment, __u64 now_ns)
{
	struct uc_sample sample = {.now_ns = now_ns};

	/* the peer has accepted the byte of a window probe */
	if (flow->bits & UC_FLOW_PROBED && segment->ack == flow->snd_nxt + 1) {
		flow->bits &= ~UC_FLOW_PROBED;
		flow->snd_nxt++;
	}
	/* below SND.UNA, or above everything ever sent (RFC 5961 §5) */
	if (uc_before(segment->ack, flow->snd_una) || uc_after(segment->ack, flow->snd_nxt)) {
		sample.old = 1;
		return sample;
	}
	sample.acked_bytes = segment->ack - flow->snd_una;
	uc_feedback_read(flow, segment, &sample);
	if (!sample.acked_bytes)
		sample.duplicate = uc_note_repeated(flow, segment);
	/* a window that opens ends the backoff of probes */
	if (!flow->peer_window && segment->window)
		flow->backoffs = 0;
	flow->peer_window = segment->window;
	if (!sample.acked_bytes)
		return sample;

	sample.fills = flow->bits & UC_FLOW_SACK && flow->repeated;
	/* with SACK, an ACK of new data may be the first to report the next hole */
	flow->repeated = 0;
	if (segment->options & UC_OPT_SACK && flow->bits & UC_FLOW_SACK)
		flow->repeated = segment->mss_bytes;
	flow->dup_acks = 0;
	flow->bits &= ~UC_FLOW_TIMED_OUT;
	flow->bits &= ~UC_FLOW_RESENT;
	/* Linux counts packets: a sub-MSS segment counts as a full one when acknowledged */
	if (uc_after(flow->runt_seq, flow->snd_una) && !uc_after(flow->runt_seq, segment->ack))
		flow->acked_bytes = uc_min(flow->acked_bytes + flow->runt_short_bytes, 0xffff);
	flow->snd_una = segment->ack;
	/* both follow SND.UNA, so that circular comparisons stay right */
	if (!uc_after(flow->runt_seq, flow->snd_una))
		flow->runt_seq = flow->snd_una;
	if (!uc_after(flow->resent_end, flow->snd_una))
		flow->resent_end = flow->snd_una;
	if (flow->bits & UC_FLOW_TIMED && !uc_before(segment->ack, flow->timed_seq)) {
		flow->bits &= ~UC_FLOW_TIMED;
		uc_sample_rtt(flow, uc_timed_ns(flow, now_ns));
	}
	if (uc_has_timers(flow))
		sample.rtt_us = uc_read_timers(flow, annex, sample.acked_bytes, now_ns);
	return sample;
}

/* Returns how many full segments are acknowledged; the rest of the bytes counts with the next ACK.
 */
static __always_inline __u32 uc_acked_segments(struct uc_flow *flow, __u32 acked_bytes)
{
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;
	__u32 segments;

	acked_bytes += flow->acked_bytes;
	segments = acked_bytes / mss_bytes;
	flow->acked_bytes = acked_bytes - segments * mss_bytes;
	return segments;
}

#endif
