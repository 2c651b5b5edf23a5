/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the host can know of a guest's TCP by watching its segments pass.
 */
#ifndef UC_TRACK_H
#define UC_TRACK_H

#include "flow.h"
#include "segment.h"
#include "since.h"

/* RFC 5681 §3.2: the third duplicate ACK says that a segment is lost. */
#define UC_DUP_ACKS 3
/* A smaller payload is the new segment size once it has come this often in a row: the tail of a
 * write is small once, a path with a smaller MTU always. */
#define UC_MSS_CONFIRMATIONS 8
/* RFC 6298 (2.1) asks for 1 s before the first sample; (2.4) for a minimum, here Linux's. */
#define UC_RTO_INITIAL_US 1000000
#define UC_RTO_MIN_US     200000
/* A longer one is a clock gone wrong; keeps the scaled sums within 32 bits. */
#define UC_RTT_MAX_US 60000000

/* What a data segment of the guest is. */
enum uc_sent {
	UC_SENT_NOTHING, /* no payload and no FIN, or a window probe */
	UC_SENT_NEW,     /* all of it beyond snd_nxt */
	UC_SENT_AGAIN,   /* a retransmission that tells nothing new */
	UC_SENT_FAST,    /* the first retransmission of a fast recovery */
	UC_SENT_TIMEOUT, /* the guest's retransmission timer fired */
};

/* What an ACK to the guest says. */
struct uc_ack {
	__u32 acked_bytes; /* newly acknowledged */
	__u32 rtt_us;      /* of the last timed segment that it covers; 0: none */
	__u8 duplicate;    /* RFC 5681 §2 */
	__u8 old;          /* outside snd_una … snd_nxt: says nothing */
	__u8 ece;
};

/*
 * RFC 5681 §3.2 and RFC 6582 retransmit in answer to an ACK, a timer in answer to nothing. A SACK
 * guest (RFC 6675, RACK) may need fewer duplicates than three.
 */
static __always_inline enum uc_sent uc_classify_retransmission(const struct uc_flow *flow,
							       __u32 seq, __u32 end)
{
	__u8 sack = !!(flow->bits & UC_FLOW_SACK);

	/* a window probe (RFC 9293 §3.8.6.1) says nothing of the network */
	if (seq != flow->snd_una || !flow->peer_window)
		return UC_SENT_AGAIN;
	/* sent again a second time: after a timeout the guest goes through all of it once, in order
	 * (RFC 5681 §3.1 with snd_nxt pulled back), and comes back for another timeout only */
	if (flow->retransmitted_seq == seq ||
	    (flow->ca == UC_CA_LOSS && uc_before(seq, flow->resent_end)))
		return UC_SENT_TIMEOUT;
	/* RFC 6582 §3.2 step 5: after a partial ACK the next hole goes out without a new signal */
	if (flow->ca == UC_CA_RECOVERY || flow->ca == UC_CA_LOSS)
		return UC_SENT_AGAIN;
	if (flow->dup_acks >= UC_DUP_ACKS || (sack && flow->dup_acks))
		return UC_SENT_FAST;
	/* RFC 8985 §7: a tail loss probe repeats the last segment; alone in flight it looks like a
	 * timeout, and is one when it comes a second time */
	if (sack && end == flow->snd_nxt && uc_flight_segments(flow) == 1)
		return UC_SENT_AGAIN;
	return UC_SENT_TIMEOUT;
}

/* A SACK guest fills holes far ahead, and may fill one twice without a timer (RACK): of its
 * retransmissions only the one at snd_una counts. */
static __always_inline void uc_remember_resent(struct uc_flow *flow, enum uc_sent sent, __u32 seq,
					       __u32 end)
{
	if (seq == flow->snd_una)
		flow->retransmitted_seq = seq;
	else if (flow->bits & UC_FLOW_SACK)
		return;
	if (sent == UC_SENT_TIMEOUT || uc_after(end, flow->resent_end))
		flow->resent_end = end;
}

static __always_inline void uc_learn_mss(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u16 wire_bytes = segment->wire_payload_bytes;

	if (wire_bytes < UC_MSS_MIN_BYTES)
		return;

	if (wire_bytes >= flow->mss_bytes || segment->payload_bytes > wire_bytes) {
		/* as large as ever, or cut by the guest's own segmentation: no doubt */
		flow->mss_bytes = wire_bytes;
		flow->mss_candidate_seen = 0;
		return;
	}
	if (wire_bytes != flow->mss_candidate_bytes || segment->flags & UC_PSH) {
		flow->mss_candidate_bytes = wire_bytes;
		flow->mss_candidate_seen = 0;
		return;
	}
	if (++flow->mss_candidate_seen >= UC_MSS_CONFIRMATIONS) {
		flow->mss_bytes = wire_bytes;
		flow->mss_candidate_seen = 0;
	}
}

/* Runts: does the guest keep to Nagle's rule, one at a time (RFC 896, RFC 9293 §3.7.4)? */
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
	/* shorter than the grain of the window: what rounding up made of it (window.h) */
	if (segment->payload_bytes % mss_bytes < 1U << (flow->wscale & 15))
		flow->bits &= ~UC_FLOW_PAIRS;
	/* a room short of three segments used up: they went out in one piece */
	else if (flow->offered_segments == 3 && !uc_after(flow->edge, end))
		flow->bits = (flow->bits & ~UC_FLOW_PAIRS) | UC_FLOW_BULK;
	flow->runt_seq = end;
	flow->runt_short_bytes = mss_bytes - segment->payload_bytes % mss_bytes;
}

/*
 * Timers, for laws that need more than the one round-trip time in a window that RFC 6298 asks for:
 * the segments of a window about a quarter of it apart. Only law `delay` pays for them.
 */
static __always_inline __u8 uc_has_timers(const struct uc_flow *flow)
{
	return flow->policy.law == UC_LAW_DELAY;
}

static __always_inline void uc_stop_timers(struct uc_flow *flow)
{
	for (int i = 0; i < UC_TIMERS; i++)
		flow->delay.timers[i].end = flow->snd_una;
}

/* New data that ends at snd_nxt has passed. */
static __always_inline void uc_start_timer(struct uc_flow *flow, __u64 now_ns)
{
	__u32 newest = flow->snd_una, spacing_bytes = flow->reno.cwnd / UC_TIMERS;
	__u8 running = 0;

	for (int i = 0; i < UC_TIMERS; i++) {
		if (uc_after(flow->delay.timers[i].end, newest)) {
			newest = flow->delay.timers[i].end;
			running = 1;
		}
	}
	if (running && flow->snd_nxt - newest < spacing_bytes)
		return;
	for (int i = 0; i < UC_TIMERS; i++) {
		if (uc_after(flow->delay.timers[i].end, flow->snd_una))
			continue;
		flow->delay.timers[i].end = flow->snd_nxt;
		flow->delay.timers[i].at_us = (__u32)(now_ns / 1000);
		return;
	}
}

/* Was all that this ACK acknowledges, and all that was in flight, one segment? */
static __always_inline __u8 uc_was_alone(const struct uc_flow *flow, __u32 acked_bytes)
{
	return acked_bytes <= flow->mss_bytes && !uc_flight_bytes(flow);
}

/*
 * What the timers say of an ACK that has moved snd_una by acked_bytes. Of several the last one
 * sent: the others have waited for it. Receivers delay the ACK of a lone segment (RFC 9293
 * §3.8.6.3: up to 500 ms, and until their application answers), never that of a second one. So an
 * ACK of one segment that leaves none in flight tells nothing.
 */
static __always_inline __u32 uc_read_timers(struct uc_flow *flow, __u32 acked_bytes, __u64 now_ns)
{
	__u8 delayed = uc_was_alone(flow, acked_bytes);
	__u32 newest = flow->snd_una - acked_bytes, at_us = 0;
	__u8 read = 0;
	__s32 rtt_us;

	for (int i = 0; i < UC_TIMERS; i++) {
		struct uc_timer *timer = &flow->delay.timers[i];

		if (uc_after(timer->end, flow->snd_una))
			continue;
		if (uc_after(timer->end, newest)) {
			newest = timer->end;
			at_us = timer->at_us;
			read = 1;
		}
		/* comparisons are circular: what lies behind must not fall 2 GiB behind */
		timer->end = flow->snd_una;
	}
	if (!read || delayed)
		return 0;
	rtt_us = (__s32)((__u32)(now_ns / 1000) - at_us);
	/* two CPUs' clocks may differ by a little; 0 would be "none" */
	if (rtt_us < 1)
		return 1;
	return rtt_us < UC_RTT_MAX_US ? rtt_us : UC_RTT_MAX_US;
}

/* A segment of the guest: what is it, and how far has the guest come? */
static __always_inline enum uc_sent uc_track_sent(struct uc_flow *flow,
						  const struct uc_segment *segment, __u64 now_ns)
{
	__u32 end = uc_segment_end(segment);
	enum uc_sent sent;

	if (segment->flags & UC_FIN)
		flow->bits |= UC_FLOW_FIN_GUEST;
	if (end == segment->seq)
		return UC_SENT_NOTHING;
	/* RFC 9293 §3.8.6.1: one new byte into a shut window, which the peer is free to refuse */
	if (segment->seq == flow->snd_nxt && segment->payload_bytes == 1 && !flow->peer_window) {
		flow->bits |= UC_FLOW_PROBED;
		return UC_SENT_NOTHING;
	}
	/* not sent again, only overtaken between the guest and its port (several queues) */
	if (flow->bits & UC_FLOW_HOLE && segment->seq == flow->hole_seq) {
		flow->bits &= ~UC_FLOW_HOLE;
		return UC_SENT_AGAIN;
	}
	if (uc_before(segment->seq, flow->snd_nxt)) {
		sent = uc_classify_retransmission(flow, segment->seq, end);
		uc_remember_resent(flow, sent, segment->seq, end);
		/* RFC 6298 §3 (Karn): an ACK of data sent twice times nothing */
		flow->bits &= ~UC_FLOW_TIMED;
		if (uc_has_timers(flow))
			uc_stop_timers(flow);
		if (uc_after(end, flow->snd_nxt))
			flow->snd_nxt = end;
		flow->sent_ns = now_ns;
		return sent;
	}
	if (segment->seq != flow->snd_nxt) {
		flow->bits |= UC_FLOW_HOLE;
		flow->hole_seq = flow->snd_nxt;
	}
	uc_learn_mss(flow, segment);
	uc_learn_runt(flow, segment, end);
	flow->snd_nxt = end;
	flow->sent_ns = now_ns;
	flow->bits &= ~UC_FLOW_PROBED;
	if (!(flow->bits & UC_FLOW_TIMED)) {
		flow->bits |= UC_FLOW_TIMED;
		flow->timed_seq = end;
		flow->timed_ns = now_ns;
	}
	if (uc_has_timers(flow))
		uc_start_timer(flow, now_ns);
	return UC_SENT_NEW;
}

/* RFC 6298 (2.2), (2.3) in the scaled integers of its appendix: srtt ×8, rttvar ×4. */
static __always_inline void uc_sample_rtt(struct uc_flow *flow, __u64 rtt_ns)
{
	__u64 whole_us = rtt_ns / 1000;
	__u32 rtt_us = whole_us < UC_RTT_MAX_US ? (__u32)whole_us : UC_RTT_MAX_US;
	__u32 deviation_us;

	flow->backoffs = 0;
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

/* RFC 6298 (2.3): what the guest's timer is likely to be. Linux holds the minimum against the
 * variation alone, not against the sum. */
static __always_inline __u32 uc_rto_us(const struct uc_flow *flow)
{
	__u32 variation_us = flow->rttvar_us;

	if (!flow->srtt_us)
		return UC_RTO_INITIAL_US;
	if (variation_us < UC_RTO_MIN_US)
		variation_us = UC_RTO_MIN_US;
	return (flow->srtt_us >> 3) + variation_us;
}

/* An ACK to the guest. The peer's window field is kept for the next comparison. */
static __always_inline struct uc_ack uc_track_ack(struct uc_flow *flow,
						  const struct uc_segment *segment, __u64 now_ns)
{
	struct uc_ack ack = {.ece = segment->flags & UC_ECE && flow->bits & UC_FLOW_ECN};

	/* the peer has taken the byte of a window probe */
	if (flow->bits & UC_FLOW_PROBED && segment->ack == flow->snd_nxt + 1) {
		flow->bits &= ~UC_FLOW_PROBED;
		flow->snd_nxt++;
	}
	/* below what is acknowledged, or above what was ever sent (RFC 5961 §5) */
	if (uc_before(segment->ack, flow->snd_una) || uc_after(segment->ack, flow->snd_nxt)) {
		ack.old = 1;
		return ack;
	}
	ack.acked_bytes = segment->ack - flow->snd_una;
	/* RFC 5681 §2, a duplicate: (a) data outstanding, (b) none carried, (c) no SYN, no FIN,
	 * (d) the greatest ACK so far, (e) the same window */
	ack.duplicate = !ack.acked_bytes && uc_flight_bytes(flow) && !segment->payload_bytes &&
			!(segment->flags & (UC_SYN | UC_FIN)) &&
			segment->window == flow->peer_window;
	/* an open window ends the backing off of probes */
	if (!flow->peer_window && segment->window)
		flow->backoffs = 0;
	flow->peer_window = segment->window;
	if (ack.duplicate) {
		flow->dup_acks += flow->dup_acks < 255;
		return ack;
	}
	if (!ack.acked_bytes)
		return ack;

	flow->dup_acks = 0;
	flow->bits &= ~UC_FLOW_TIMED_OUT;
	/* Linux counts packets: a runt acknowledged is worth a segment */
	if (uc_after(flow->runt_seq, flow->snd_una) && !uc_after(flow->runt_seq, segment->ack))
		flow->acked_bytes += flow->runt_short_bytes;
	flow->snd_una = segment->ack;
	/* comparisons are circular: what lies behind must not fall 2 GiB behind */
	if (!uc_after(flow->runt_seq, flow->snd_una))
		flow->runt_seq = flow->snd_una;
	if (!uc_after(flow->resent_end, flow->snd_una))
		flow->resent_end = flow->snd_una;
	if (flow->bits & UC_FLOW_TIMED && !uc_before(segment->ack, flow->timed_seq)) {
		flow->bits &= ~UC_FLOW_TIMED;
		uc_sample_rtt(flow, uc_since_ns(now_ns, flow->timed_ns));
	}
	if (uc_has_timers(flow))
		ack.rtt_us = uc_read_timers(flow, ack.acked_bytes, now_ns);
	return ack;
}

/* Whole segments among the bytes acknowledged; the rest waits for the next ACK. */
static __always_inline __u32 uc_acked_segments(struct uc_flow *flow, __u32 acked_bytes)
{
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;
	__u32 segments;

	flow->acked_bytes += acked_bytes;
	segments = flow->acked_bytes / mss_bytes;
	flow->acked_bytes -= segments * mss_bytes;
	return segments;
}

#endif
