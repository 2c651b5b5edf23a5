/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * HWatch (Abdelmoniem and others): how a flow starts. The sending host has small packets measure
 * the path before the first one of the flow (watch/probe.h); the receiving host counts how many
 * arrive marked and sets the flow's first windows by that (here), one flow after the other
 * (watch/bucket.h).
 *
 * With X_UM probes unmarked and X_M marked or lost, the theorems of §4.2 allow
 *
 *   X_UM + X_M/2   segments at once (cor. 4.2.2), and
 *   X_M/2          when the first of them have arrived (lemma 4.3).
 *
 * Half of X_M is right where probes are as large as data, and fill the queue that they measure. A
 * mark on a small one tells that the queue was long before anyone starts: policy says which part of
 * X_M takes the place of the half.
 *
 * The half that waits makes room for others that start into the same queue. Where that queue is at
 * the receiving host's own link, the host sees them all, and each has its turn: there nothing is
 * gained by halves, and the whole is given at once.
 *
 * After that, data are the probes: each segment that arrives earns the next one, a marked one half
 * of it a round later. So no more is under way than was measured to fit, and less at one time where
 * there are marks.
 *
 * That rule never grows, so a flow must leave its start (the paper doesn't say how). It does
 *
 *   with the first ACK of data, where no probe was marked or the whole was given at once: only the
 *   first window is written;
 *   after a round of data without a mark; and
 *   after policy's number of rounds, marks or not.
 *
 * From there on the law beside it rules alone: that is the paper's rule 1, for which it has no
 * formula.
 *
 * Either end may be the one that sends. The receiving host gives the first window with the first
 * ACK of its guest: the SYN-ACK where the peer opened the connection, the handshake's ACK (and the
 * request that follows) where its guest did. A flow waits for its turn before the guest's first
 * packet: the SYN-ACK, or the SYN.
 *
 * A home calls, under one lock for each flow:
 *   sending:   uc_watch_probes, _span_ns, _offset_ns; then _answered, _echoed
 *   receiving: uc_watch_probe, _to_guest, _heard, _from_guest; where that grants a first window,
 *              _wait_ns, and where it says so, _settle
 */
#ifndef UC_WATCH_H
#define UC_WATCH_H

#include "watch/bucket.h"
#include "watch/flow.h"
#include "watch/probe.h"

struct uc_watch_answer {
	__u32 grant_bytes;  /* this packet is the first of the guest, and what will come by it takes
			     * so much of its link's time: ask for its turn; 0: it needn't wait */
	__s32 settle_bytes; /* so much more than its turn was for has come by the first window;
			     * less: negative (uc_watch_settle) */
	__u16 window;       /* the header's field, unscaled */
	__u16 pad;
};

/* What stands around the payload of a segment: Ethernet, IPv4 and TCP with timestamps. */
#define UC_WATCH_HEADER_BYTES 66

static __always_inline __u32 uc_watch_ones(__u32 word)
{
	word -= word >> 1 & 0x55555555U;
	word = (word & 0x33333333U) + (word >> 2 & 0x33333333U);
	return ((word + (word >> 4)) & 0x0f0f0f0fU) * 0x01010101U >> 24;
}

/*
 * X_M and X_UM at the end of counting. Probes that are missing were lost, which is worse than a
 * mark. Where none came at all, either none was sent, since the path's last measure stands, or all
 * were lost, or their host is silent: then nothing was measured (0), and the next flow asks again.
 */
static __always_inline __u8 uc_watch_measure(const struct uc_watch_flow *flow,
					     const struct uc_watch_policy *policy,
					     struct uc_watch_path *path, __u64 now_ns)
{
	__u32 sent = flow->probes_sent, marked, unmarked;

	if (!sent && uc_watch_is_fresh(policy, path, 2, now_ns))
		return 1;
	if (!sent)
		sent = uc_watch_probe_count(policy);
	unmarked = uc_watch_ones(flow->seen) - flow->probes_marked;
	marked = sent - unmarked;
	/* the SYN, and whatever else of the flow took the same way */
	path->unmarked = uc_min(unmarked + flow->unmarked, 255);
	path->marked = uc_min(marked + flow->marked, 255);
	if (!flow->probes_sent)
		return 0;
	path->measured_ns = now_ns | !now_ns;
	return 1;
}

/* The first window, in bytes, and what is owed behind it. */
static __always_inline __u32 uc_watch_first(struct uc_watch_flow *flow,
					    const struct uc_watch_policy *policy,
					    const struct uc_watch_path *path, __u8 measured,
					    __u8 turns, __u32 random)
{
	/* of what nobody measured the paper's half */
	__u32 part = measured ? uc_watch_marked_part(policy) : 2;
	/* of an odd number the middle one goes in either batch, each as likely (thm. 4.2) */
	__u32 half = turns ? path->marked : (path->marked + random % part) / part;
	__u32 segments = path->unmarked + half;

	flow->owed_halves = 2 * uc_min(path->marked - half, (path->marked + part - 1) / part);
	segments = uc_max(segments, uc_watch_least(policy));
	return uc_min(segments, 65535 / flow->mss_bytes) * flow->mss_bytes;
}

/* What so much payload takes of the link. */
static __always_inline __u32 uc_watch_frame_bytes(const struct uc_watch_flow *flow, __u32 bytes)
{
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;

	return bytes + (bytes + mss_bytes - 1) / mss_bytes * UC_WATCH_HEADER_BYTES;
}

/*
 * Flows to one host mostly look like those before them, and many are shorter than their first
 * window. How much of it they use is learned, as a mean, so that many flows of different sizes are
 * charged for what they take together. Returns how much more, or less, than its turn was for this
 * one has used.
 */
static __always_inline __s32 uc_watch_note_use(struct uc_watch_flow *flow,
					       struct uc_watch_path *path,
					       const struct uc_segment *segment)
{
	__u32 bytes = flow->una - flow->start, used;
	/* the guest closes: its peer has said all, or is asked to */
	__u8 closed = !!(segment->flags & UC_FIN);

	if (flow->bits & UC_WATCH_MEASURED || (!closed && bytes < flow->first_bytes))
		return 0;
	flow->bits |= UC_WATCH_MEASURED;
	bytes = uc_min(bytes, flow->first_bytes);
	used = 4 * ((bytes + flow->mss_bytes - 1) / flow->mss_bytes);
	if (path->used_quarters)
		used = path->used_quarters - path->used_quarters / 4 + used / 4;
	path->used_quarters = uc_max(uc_min(used, 255), 4);
	if (!(flow->bits & UC_WATCH_TURN))
		return 0;
	return (__s32)(uc_watch_frame_bytes(flow, bytes) -
		       uc_watch_frame_bytes(flow, flow->charged_bytes));
}

/* What a first window takes of its link's time, in bytes: what flows of this path use of it. Where
 * nobody told the host what arrives, marks tell of the others on the link. */
static __always_inline __u32 uc_watch_charge(struct uc_watch_flow *flow,
					     const struct uc_watch_policy *policy,
					     const struct uc_watch_path *path,
					     const struct uc_watch_bucket *bucket)
{
	__u32 bytes = flow->first_bytes, probes = path->marked + path->unmarked;

	if (flow->bits & UC_WATCH_TURN)
		return 0;
	flow->bits |= UC_WATCH_TURN;
	/* a SYN: nothing is counted yet */
	if (!bytes)
		bytes = uc_max(uc_watch_probe_count(policy), uc_watch_least(policy)) *
			flow->mss_bytes;
	if (path->used_quarters)
		bytes = uc_min(bytes, path->used_quarters * flow->mss_bytes / 4U);
	bytes = uc_min(bytes, 65535);
	flow->charged_bytes = bytes;
	bytes = uc_watch_frame_bytes(flow, bytes);
	if (bucket->period_ns)
		return bytes;
	return bytes + bytes * path->marked / (probes | !probes);
}

/* No packet of the guest has given a window yet: this one does. */
static __always_inline void
uc_watch_begin(struct uc_watch_flow *flow, const struct uc_watch_policy *policy,
	       struct uc_watch_path *path, const struct uc_watch_bucket *bucket,
	       const struct uc_segment *segment, __u64 now_ns, __u32 random)
{
	__u8 turns = uc_watch_is_full(bucket, policy, now_ns), measured;

	uc_watch_agree(flow);
	measured = uc_watch_measure(flow, policy, path, now_ns);
	flow->first_bytes = uc_watch_first(flow, policy, path, measured, turns, random);
	flow->start = segment->ack;
	flow->una = segment->ack;
	flow->edge = segment->ack + flow->first_bytes;
	flow->given = segment->ack;
	flow->round_end = segment->ack;
	flow->marked = 0;
	flow->unmarked = 0;
	flow->earned_halves = 0;
	flow->stage = UC_WATCH_ROUNDS;
	if (turns || !path->marked)
		flow->bits |= UC_WATCH_WHOLE;
}

/* New data are acknowledged: is the round over, and with it the start? */
static __always_inline void uc_watch_turn(struct uc_watch_flow *flow,
					  const struct uc_watch_policy *policy,
					  struct uc_watch_path *path, __u64 now_ns)
{
	__u32 earned = flow->earned_halves + flow->owed_halves;
	__u8 over = flow->bits & UC_WATCH_WHOLE;

	if (flow->rounds) {
		over = !flow->marked || flow->rounds >= policy->rounds;
		path->measured_ns = now_ns | !now_ns;
		path->marked = uc_min(flow->marked, 255);
		path->unmarked = uc_min(flow->unmarked, 255);
	}
	if (over) {
		flow->stage = UC_WATCH_LEFT;
		return;
	}
	flow->rounds++;
	flow->round_end = flow->edge;
	flow->earned_halves = uc_min(earned, UC_WATCH_HALVES_MAX);
	flow->owed_halves = 0;
	flow->marked = 0;
	flow->unmarked = 0;
}

/* What was earned moves the edge by whole segments, with an ACK of new data only: a duplicate ACK
 * keeps the window of the one before it, or it is none (RFC 5681 §2). */
static __always_inline void uc_watch_advance(struct uc_watch_flow *flow,
					     const struct uc_watch_policy *policy,
					     struct uc_watch_path *path, __u32 ack, __u64 now_ns)
{
	__u32 least_bytes = uc_watch_least(policy) * flow->mss_bytes;

	if (!uc_after(ack, flow->una))
		return;
	flow->una = ack;
	if (!uc_before(ack, flow->round_end))
		uc_watch_turn(flow, policy, path, now_ns);
	flow->edge += flow->earned_halves / 2 * flow->mss_bytes;
	flow->earned_halves &= 1;
	if (uc_before(flow->edge, ack + least_bytes))
		flow->edge = ack + least_bytes;
}

/*
 * From the edge to the field: never behind what was given, which the peer may have sent; never more
 * than the receiver has. The steady laws round down to the receiver's grain, since a runt in each
 * window is dear. A start rounds up: it is over soon, and of a window of two segments less a few
 * bytes a sender uses one, whose ACK the receiver delays.
 */
static __always_inline __u16 uc_watch_field(struct uc_watch_flow *flow,
					    const struct uc_segment *segment, __u8 wscale)
{
	__u32 grain_bytes = 1U << (wscale & 15), room_bytes, field;

	if (uc_before(flow->given, flow->edge))
		flow->given = flow->edge;
	room_bytes = flow->given - segment->ack;
	/* numbers that make no sense: as the receiver has it */
	if (room_bytes - 1 >= 1U << 30)
		return segment->window;
	field = (room_bytes + grain_bytes - 1) >> (wscale & 15);
	field = uc_min(field, segment->window);
	if (uc_after(segment->ack + (field << (wscale & 15)), flow->given))
		flow->given = segment->ack + (field << (wscale & 15));
	return field;
}

/*
 * A segment of the guest, on its way to the one that sends the data. `path`: the receiving host's
 * record of it. `bucket`: its link's. `random`: any word. What is returned is never 0, and never
 * above the receiver's window unless that is so itself.
 */
static __always_inline struct uc_watch_answer
uc_watch_from_guest(struct uc_watch_flow *flow, const struct uc_watch_policy *policy,
		    struct uc_watch_path *path, const struct uc_watch_bucket *bucket,
		    const struct uc_segment *segment, __u64 now_ns, __u32 random)
{
	struct uc_watch_answer answer = {.window = segment->window};
	__u8 syn = !!(segment->flags & UC_SYN), first;

	if (flow->stage == UC_WATCH_COUNTING && syn)
		uc_watch_learn(flow, segment);
	if (segment->flags & UC_RST)
		return answer;
	/* A SYN's window is nobody's yet (RFC 9293 §3.8.6), but its turn is at hand: held back
	 * here, all that answers it comes in turns, the SYN-ACKs too. */
	if (syn && !(segment->flags & UC_ACK) && !policy->observe)
		answer.grant_bytes = uc_watch_charge(flow, policy, path, bucket);
	if (!(segment->flags & UC_ACK))
		return answer;
	first = flow->stage == UC_WATCH_COUNTING;
	if (first)
		uc_watch_begin(flow, policy, path, bucket, segment, now_ns, random);
	else if (flow->stage == UC_WATCH_ROUNDS && !syn)
		uc_watch_advance(flow, policy, path, segment->ack, now_ns);
	else if (uc_after(segment->ack, flow->una))
		flow->una = segment->ack;
	answer.settle_bytes = uc_watch_note_use(flow, path, segment);
	if (policy->observe)
		return answer;
	if (flow->stage == UC_WATCH_ROUNDS)
		answer.window = uc_watch_field(flow, segment, syn ? 0 : flow->wscale);
	if (first)
		answer.grant_bytes = uc_watch_charge(flow, policy, path, bucket);
	return answer;
}

#endif
