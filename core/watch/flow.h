/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the receiving host knows of one flow while it starts: what arrived marked and unmarked, and
 * how far its peer may send. All zero: nothing seen yet. Probes may come before the SYN does.
 */
#ifndef UC_WATCH_FLOW_H
#define UC_WATCH_FLOW_H

#include "../mss.h"
#include "policy.h"

enum uc_watch_stage {
	UC_WATCH_COUNTING, /* no window given yet */
	UC_WATCH_ROUNDS,   /* windows as the counts have it */
	UC_WATCH_LEFT,     /* the start is over: the law beside it rules alone */
};

/* uc_watch_flow.bits */
#define UC_WATCH_SCALES_GUEST 0x01 /* it offered window scaling (RFC 7323 §2.2) */
#define UC_WATCH_SCALES_PEER  0x02
#define UC_WATCH_STAMPS_GUEST 0x04 /* timestamps: 12 bytes of each segment */
#define UC_WATCH_STAMPS_PEER  0x08
#define UC_WATCH_WHOLE        0x10 /* nothing was held back of its first window */
#define UC_WATCH_MEASURED     0x20 /* what it used of its first window is in the path's record */
#define UC_WATCH_TURN         0x40 /* it has had its turn, or waits for it */

struct uc_watch_flow {
	__u32 seen;          /* probes by their index: a copy counts once */
	__u32 start;         /* where the data begin: the ACK number of the first window */
	__u32 una;           /* the furthest ACK number of the guest */
	__u32 edge;          /* where the counts let the peer send to, at a segment's end */
	__u32 given;         /* the furthest edge that any window gave; never taken back */
	__u32 round_end;     /* acknowledged, the round is over */
	__u16 mss_bytes;     /* payload of a segment */
	__u16 earned_halves; /* half segments that were earned and not given yet */
	__u16 owed_halves;   /* the same, not before the next round */
	__u16 marked;        /* of this round, in segments */
	__u16 unmarked;
	__u16 first_bytes; /* the first window: a copy of its packet gives the same */
	__u8 probes_marked;
	__u8 probes_sent; /* as they say themselves; 0: none came */
	__u8 stage;       /* enum uc_watch_stage */
	__u8 rounds;      /* of data, that have begun */
	__u8 wscale;      /* the guest's */
	__u8 bits;
	__u16 charged_bytes; /* of payload: what its turn was taken for */
	__u32 transit_ns;    /* of the quickest probe so far, on no clock; with the next */
	__u8 timed;          /* 1: there was one */
	__u8 pad[3];
};

#define UC_WATCH_HALVES_MAX 0x7fff

/* A probe of this flow, which says its index and how many there are. Where its home can't tell a
 * true one it must not be asked. Returns 0 for one that makes no sense. */
static __always_inline __u8 uc_watch_probe(struct uc_watch_flow *flow, __u8 index, __u8 probes,
					   __u8 ecn)
{
	__u32 bit = 1U << (index & (UC_WATCH_PROBES_MAX - 1));

	if (!probes || probes > UC_WATCH_PROBES_MAX || index >= probes ||
	    (flow->probes_sent && flow->probes_sent != probes))
		return 0;
	/* what comes when the window is given tells nothing any more */
	if (flow->stage != UC_WATCH_COUNTING || flow->seen & bit)
		return 1;
	flow->probes_sent = probes;
	flow->seen |= bit;
	flow->probes_marked += ecn == UC_CE;
	return 1;
}

/*
 * Probes that arrive further apart than they left have met a queue that grows (§3.4). The codepoint
 * to count the probe by: of one that was on its way so much longer than the quickest of its flow,
 * CE. `sent_ns`: when it left, by any clock that all probes of the flow share. To be asked before
 * uc_watch_probe.
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

/* A SYN or SYN-ACK of either end: the smaller of both segment sizes, and the guest's scale. */
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

/* Both have spoken. */
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

/* Is this segment, on its way to the guest, behind the flow's first window? */
static __always_inline __u8 uc_watch_is_steady(const struct uc_watch_flow *flow,
					       const struct uc_segment *segment)
{
	if (flow->stage == UC_WATCH_COUNTING || !segment->payload_bytes)
		return 0;
	return !uc_before(segment->seq, flow->start + flow->first_bytes);
}

/* The segments of a super-segment. */
static __always_inline __u32 uc_watch_segments(const struct uc_segment *segment)
{
	__u32 wire_bytes = segment->wire_payload_bytes;

	if (!segment->payload_bytes || !wire_bytes)
		return 1;
	return uc_min((segment->payload_bytes + wire_bytes - 1) / wire_bytes, 64);
}

/*
 * A segment on its way to the guest. Whatever is ECN-capable counts; of data each segment earns
 * another: an unmarked one now, a marked one half now and half in the next round.
 */
static __always_inline void uc_watch_to_guest(struct uc_watch_flow *flow,
					      const struct uc_segment *segment)
{
	__u32 segments = uc_watch_segments(segment), marked, earned, owed;

	if (flow->stage == UC_WATCH_COUNTING && segment->flags & UC_SYN)
		uc_watch_learn(flow, segment);
	if (flow->stage == UC_WATCH_LEFT || (segment->ecn == UC_NOT_ECT && !segment->payload_bytes))
		return;
	marked = segment->ecn == UC_CE ? segments : 0;
	flow->marked = uc_min(flow->marked + marked, UC_WATCH_HALVES_MAX);
	flow->unmarked = uc_min(flow->unmarked + segments - marked, UC_WATCH_HALVES_MAX);
	if (!segment->payload_bytes)
		return;
	earned = flow->earned_halves + 2 * segments - marked;
	owed = flow->owed_halves + marked;
	flow->earned_halves = uc_min(earned, UC_WATCH_HALVES_MAX);
	flow->owed_halves = uc_min(owed, UC_WATCH_HALVES_MAX);
}

#endif
