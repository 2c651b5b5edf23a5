/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * One flow's start at the receiving host: what arrived marked and unmarked, and how far the peer
 * may send. Probes may arrive before the SYN.
 */
#ifndef UC_WATCH_FLOW_H
#define UC_WATCH_FLOW_H

#include "../mss.h"
#include "policy.h"

enum uc_watch_stage {
	UC_WATCH_COUNTING, /* no window granted yet */
	UC_WATCH_ROUNDS,   /* windows follow the counts */
	UC_WATCH_LEFT,     /* the start is over: the law alone sets the window */
};

/* uc_watch_flow.bits */
#define UC_WATCH_SCALES_GUEST 0x01 /* the guest offered window scaling (RFC 7323 §2.2) */
#define UC_WATCH_SCALES_PEER  0x02
#define UC_WATCH_STAMPS_GUEST 0x04 /* the guest offered timestamps: 12 bytes of each segment */
#define UC_WATCH_STAMPS_PEER  0x08
#define UC_WATCH_WHOLE        0x10 /* the first window was granted whole */
#define UC_WATCH_MEASURED     0x20 /* its use of the first window is in the path's record */
#define UC_WATCH_TURN         0x40 /* its first window was charged to the bucket */

/* All zero: nothing seen yet. */
struct uc_watch_flow {
	__u32 seen;          /* bit n: probe n has arrived */
	__u32 start;         /* where the data begin: the ACK number of the first window */
	__u32 una;           /* the furthest ACK number of the guest */
	__u32 edge;          /* right edge by the counts, on a segment's boundary */
	__u32 given;         /* the furthest edge advertised; never taken back */
	__u32 round_end;     /* sequence number at whose ACK the round is over */
	__u16 mss_bytes;     /* payload of a segment */
	__u16 earned_halves; /* half segments earned and not granted yet */
	__u16 owed_halves;   /* half segments for the next round */
	__u16 marked;        /* segments that arrived marked in this round */
	__u16 unmarked;
	__u16 first_bytes; /* the first window; a copy of its packet gets the same */
	__u8 probes_marked;
	__u8 probes_sent; /* by the probes' own count; 0: none arrived */
	__u8 stage;       /* enum uc_watch_stage */
	__u8 rounds;      /* number of rounds of data begun */
	__u8 wscale;      /* the guest's window scale */
	__u8 bits;
	__u8 timed; /* 1: a probe was timed */
	__u8 pad;
	__u32 transit_ns;    /* transit time of the quickest probe so far, plus a constant; valid if
			      * `timed` */
	__u32 charged_bytes; /* bytes of the link for which the bucket was charged */
};

#define UC_WATCH_HALVES_MAX 0x7fff

/* Counts a probe of this flow by its index. The platform must have checked that the probe is
 * authentic. Returns 0 if its numbers contradict each other or those of earlier probes. */
static __always_inline __u8 uc_watch_probe(struct uc_watch_flow *flow, __u8 index, __u8 probes,
					   __u8 ecn)
{
	__u32 bit = 1U << (index & (UC_WATCH_PROBES_MAX - 1));

	if (!probes || probes > UC_WATCH_PROBES_MAX || index >= probes ||
	    (flow->probes_sent && flow->probes_sent != probes))
		return 0;
	/* too late: the window is granted */
	if (flow->stage != UC_WATCH_COUNTING || flow->seen & bit)
		return 1;
	flow->probes_sent = probes;
	flow->seen |= bit;
	flow->probes_marked += ecn == UC_CE;
	return 1;
}

/*
 * Returns the ECN codepoint by which to count a probe: CE if it took policy's `late_ns` longer than
 * the quickest probe of its flow, which shows a growing queue (§3.4); otherwise its own. `sent_ns`:
 * when it left, by any clock that all probes of the flow share. To be called before
 * uc_watch_probe().
 */
static __always_inline __u8 uc_watch_timed(struct uc_watch_flow *flow,
					   const struct uc_watch_policy *policy, __u8 ecn,
					   __u32 sent_ns, __u64 now_ns)
{
	__u32 transit_ns = (__u32)now_ns - sent_ns;
	__s32 later_ns = (__s32)(transit_ns - flow->transit_ns);

	if (!policy->late_ns)
		return ecn;
	if (!flow->timed || later_ns < 0) {
		flow->timed = 1;
		flow->transit_ns = transit_ns;
		return ecn;
	}
	return (__u32)later_ns >= policy->late_ns ? UC_CE : ecn;
}

/* Learns from a SYN or SYN-ACK of either end: the smaller MSS of both, and the guest's window
 * scale. */
static __always_inline void uc_watch_learn(struct uc_watch_flow *flow,
					   const struct uc_segment *segment)
{
	__u8 from_guest = segment->direction == UC_FROM_GUEST;
	__u16 mss_bytes = uc_offered_mss_bytes(segment);

	if (!flow->mss_bytes || mss_bytes < flow->mss_bytes)
		flow->mss_bytes = mss_bytes;
	if (segment->options & UC_OPT_WSCALE)
		flow->bits |= from_guest ? UC_WATCH_SCALES_GUEST : UC_WATCH_SCALES_PEER;
	if (segment->options & UC_OPT_TIMESTAMPS)
		flow->bits |= from_guest ? UC_WATCH_STAMPS_GUEST : UC_WATCH_STAMPS_PEER;
	if (from_guest)
		flow->wscale = uc_min(segment->wscale, UC_WSCALE_MAX);
}

/* Settles the options when SYN and SYN-ACK have been seen. */
static __always_inline void uc_watch_agree(struct uc_watch_flow *flow)
{
	__u8 scales = UC_WATCH_SCALES_GUEST | UC_WATCH_SCALES_PEER;
	__u8 stamps = UC_WATCH_STAMPS_GUEST | UC_WATCH_STAMPS_PEER;

	if ((flow->bits & scales) != scales)
		flow->wscale = 0;
	if (!flow->mss_bytes)
		flow->mss_bytes = UC_MSS_DEFAULT_BYTES;
	if ((flow->bits & stamps) == stamps)
		flow->mss_bytes -= UC_TIMESTAMPS_BYTES;
}

/* Returns whether a segment to the guest lies beyond the flow's first window. */
static __always_inline __u8 uc_watch_is_steady(const struct uc_watch_flow *flow,
					       const struct uc_segment *segment)
{
	if (flow->stage == UC_WATCH_COUNTING || !segment->payload_bytes)
		return 0;
	return !uc_before(segment->seq, flow->start + flow->first_bytes);
}

/*
 * Returns whether the guest accepts a segment of the peer by its sequence number (RFC 9293
 * §3.10.7.4): it ends at or after the guest's last ACK and begins within the largest window that
 * the guest's scale can express. Before the guest's first ACK every segment is accepted.
 */
static __always_inline __u8 uc_watch_accepts(const struct uc_watch_flow *flow,
					     const struct uc_segment *segment)
{
	__u32 window_bytes = 65535U << (flow->wscale & 15);

	if (flow->stage == UC_WATCH_COUNTING)
		return 1;
	return !uc_before(uc_segment_end(segment), flow->una) &&
	       !uc_after(segment->seq, flow->una + window_bytes);
}

/* Returns how many segments on the wire a super-segment has, 64 at most. */
static __always_inline __u32 uc_watch_segments(const struct uc_segment *segment)
{
	__u32 wire_bytes = segment->wire_payload_bytes;

	if (!segment->payload_bytes || !wire_bytes)
		return 1;
	return uc_min((segment->payload_bytes + wire_bytes - 1) / wire_bytes, 64);
}

/*
 * Counts a segment to the guest, if it is ECN-capable or has data. Each data segment that arrives
 * allows the peer another one: an unmarked segment at once, a marked one half at once and half in
 * the next round. Returns 0 for a segment that the guest doesn't accept, which changes nothing.
 */
static __always_inline __u8 uc_watch_to_guest(struct uc_watch_flow *flow,
					      const struct uc_segment *segment)
{
	__u32 segments = uc_watch_segments(segment), marked, earned, owed;

	if (!uc_watch_accepts(flow, segment))
		return 0;
	if (flow->stage == UC_WATCH_COUNTING && segment->flags & UC_SYN)
		uc_watch_learn(flow, segment);
	if (flow->stage == UC_WATCH_LEFT || (segment->ecn == UC_NOT_ECT && !segment->payload_bytes))
		return 1;
	marked = segment->ecn == UC_CE ? segments : 0;
	flow->marked = uc_min(flow->marked + marked, UC_WATCH_HALVES_MAX);
	flow->unmarked = uc_min(flow->unmarked + segments - marked, UC_WATCH_HALVES_MAX);
	if (!segment->payload_bytes)
		return 1;
	earned = flow->earned_halves + 2 * segments - marked;
	owed = flow->owed_halves + marked;
	flow->earned_halves = uc_min(earned, UC_WATCH_HALVES_MAX);
	flow->owed_halves = uc_min(owed, UC_WATCH_HALVES_MAX);
	return 1;
}

#endif
