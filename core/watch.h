/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * HWatch (Abdelmoniem and others): control of flow starts. The sending host measures the path with
 * small packets before the flow's first packet (watch/probe.h). The receiving host counts how many
 * arrive marked, sets the flow's first windows by that (this file), and paces the starts
 * (watch/bucket.h).
 *
 * With X_UM probes unmarked and X_M marked or lost, the theorems of §4.2 allow
 *
 *   X_UM + X_M/2   segments at once (cor. 4.2.2), and
 *   X_M/2          one round later, with the first ACK of data (lemma 4.3).
 *
 * Half of X_M is right if probes are as large as data and fill the queue that they measure. A mark
 * on a small probe shows that the queue was long before any flow started, so policy sets a divisor
 * N: X_M/N segments at once, and as many one round later.
 *
 * The half that waits leaves room for other flows that start into the same queue. If that queue is
 * at the receiving host's own link, the host sees all of these flows and paces them; then waiting
 * gains nothing, and the whole window is granted at once.
 *
 * After that, data take the place of probes: each unmarked segment that arrives allows one more at
 * once; a marked one allows half a segment at once and the other half one round later. So no more
 * is in flight than was measured to fit.
 *
 * This rule never enlarges the window, so the start phase must end; the paper doesn't say when.
 * Here it ends
 *
 *   with the first ACK of data, if no probe was marked or the whole was granted at once: only the
 *   first window is written;
 *   after a round of data without a mark; and
 *   after policy's number of rounds, with or without marks.
 *
 * From then on the law alone sets the window: the paper's rule 1, for which it has no formula.
 *
 * Either end may send the data. The receiving host grants the first window with the first ACK of
 * its guest: the SYN-ACK if the peer opened the connection, the handshake's ACK (and the request
 * that follows) if its guest did. What waits to be paced is the guest's first packet: the SYN-ACK,
 * or the SYN.
 *
 * A platform calls, under one lock for each flow:
 *   sending:   uc_watch_probes, _span_ns, _offset_ns; then _answered, _echoed
 *   receiving: uc_watch_probe, _to_guest, _heard, _from_guest; where that grants a first window,
 *              _wait_ns, and where it says so, _settle
 */
#ifndef UC_WATCH_H
#define UC_WATCH_H

#include "merge.h"
#include "watch/bucket.h"
#include "watch/flow.h"
#include "watch/grant.h"
#include "watch/probe.h"

struct uc_watch_answer {
	__u32 grant_bytes;  /* bytes of the link that the window granted by this packet takes: call
			     * uc_watch_wait_ns(); 0: the packet needn't wait */
	__s32 settle_bytes; /* bytes that the first window used beyond its charge; negative: fewer
			     * (uc_watch_settle) */
	__u16 window;       /* the header's field, unscaled */
	__u16 pad;
};

/* Returns the number of bits set. */
static __always_inline __u32 uc_watch_ones(__u32 word)
{
	word -= word >> 1 & 0x55555555U;
	word = (word & 0x33333333U) + (word >> 2 & 0x33333333U);
	return ((word + (word >> 4)) & 0x0f0f0f0fU) * 0x01010101U >> 24;
}

/*
 * Stores X_M and X_UM in the path's record when counting ends. Missing probes were lost and count
 * as marked. If none arrived, then none was sent because the path's last measurement is still
 * valid, or all were lost, or the sending host sends none. Returns 0 if nothing was measured; then
 * the next flow probes again.
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
	/* plus the SYN, and other segments of the flow on the same path */
	path->unmarked = uc_min(unmarked + flow->unmarked, 255);
	path->marked = uc_min(marked + flow->marked, 255);
	if (!flow->probes_sent)
		return 0;
	path->measured_ns = now_ns | !now_ns;
	return 1;
}

/* Returns the first window in bytes, and sets how many half segments follow a round later
 * (owed_halves). `measured`: the path was measured. `turns`: starts are paced, so the whole window
 * is granted at once. */
static __always_inline __u32 uc_watch_first(struct uc_watch_flow *flow,
					    const struct uc_watch_policy *policy,
					    const struct uc_watch_path *path, __u8 measured,
					    __u8 turns, __u32 random)
{
	/* without a measurement the paper's half */
	__u32 part = measured ? uc_watch_marked_part(policy) : 2;
	/* the middle one of an odd number goes into either batch at random (thm. 4.2) */
	__u32 half = turns ? path->marked : (path->marked + random % part) / part;
	__u32 segments = path->unmarked + half;

	flow->owed_halves = 2 * uc_min(path->marked - half, (path->marked + part - 1) / part);
	segments = uc_max(segments, uc_watch_least(policy));
	return uc_min(segments, 65535 / flow->mss_bytes) * flow->mss_bytes;
}

/*
 * Learns how much of their first windows flows of this path use. Returns how many bytes more than
 * its charge this flow has used, negative for fewer; 0 while it isn't known yet.
 */
static __always_inline __s32 uc_watch_note_use(struct uc_watch_flow *flow,
					       struct uc_watch_path *path,
					       const struct uc_segment *segment)
{
	__u32 bytes = flow->una - flow->start;
	/* the guest closes: its peer has sent everything, or is to stop */
	__u8 closed = !!(segment->flags & UC_FIN);

	if (flow->bits & UC_WATCH_MEASURED || (!closed && bytes < flow->first_bytes))
		return 0;
	flow->bits |= UC_WATCH_MEASURED;
	bytes = uc_min(bytes, flow->first_bytes);
	uc_watch_learn_use(path, flow->mss_bytes, bytes);
	if (!(flow->bits & UC_WATCH_TURN))
		return 0;
	/* the other end's SYN may have lowered the MSS since the charge */
	return (__s32)(uc_watch_frame_bytes(flow->mss_bytes, bytes) - flow->charged_bytes);
}

/* Returns the charge for a first window in bytes of the link: what flows of this path use of it; 0
 * if the flow was charged before. If neither the platform reports arrivals nor a granter paces, the
 * charge is larger by the fraction of probes that were marked, for the other flows on the link. */
static __always_inline __u32 uc_watch_charge(struct uc_watch_flow *flow,
					     const struct uc_watch_policy *policy,
					     const struct uc_watch_path *path,
					     const struct uc_watch_bucket *bucket)
{
	__u32 bytes = flow->first_bytes, probes = path->marked + path->unmarked;

	if (flow->bits & UC_WATCH_TURN)
		return 0;
	flow->bits |= UC_WATCH_TURN;
	/* at a SYN nothing is counted yet */
	if (!bytes)
		bytes = uc_watch_whole_bytes(policy, flow->mss_bytes);
	bytes = uc_watch_usual_bytes(path, flow->mss_bytes, bytes);
	bytes = uc_watch_frame_bytes(flow->mss_bytes, bytes);
	flow->charged_bytes = bytes;
	if (bucket->period_ns || policy->granted)
		return bytes;
	return bytes + bytes * path->marked / (probes | !probes);
}

/* For the kernel's verifier (merge.h): merges the code paths on which the network path's record has
 * changed. */
static __always_inline void uc_watch_merge(struct uc_watch_path *path, __u64 now_ns)
{
	uc_merge(path->marked, now_ns);
	uc_merge(path->unmarked, now_ns);
	uc_merge(path->used_quarters, now_ns);
}

/* Grants the first window with the guest's first ACK. */
static __always_inline void
uc_watch_begin(struct uc_watch_flow *flow, const struct uc_watch_policy *policy,
	       struct uc_watch_path *path, const struct uc_watch_bucket *bucket,
	       const struct uc_segment *segment, __u64 now_ns, __u32 random)
{
	__u8 turns = uc_watch_is_full(bucket, policy, now_ns) | policy->granted, measured;

	uc_watch_agree(flow);
	measured = uc_watch_measure(flow, policy, path, now_ns);
	uc_merge(measured, now_ns);
	uc_merge(turns, now_ns);
	uc_watch_merge(path, now_ns);
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

/* Ends a round of data, and the start if it is over. */
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

/* Advances the right edge by the full segments earned, at ACKs of new data only: a duplicate ACK
 * must have the window of the ACK before it, or it doesn't count as one (RFC 5681 §2). */
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
 * Returns the window field for the right edge: never below an edge advertised before, up to which
 * the peer may have sent, and never above the receiver's window. window.h rounds down to the
 * window's unit, because a sub-MSS segment in each window is expensive. A start rounds up: it is
 * over soon, and of a window a few bytes short of two segments a sender uses one, whose ACK the
 * receiver delays.
 */
static __always_inline __u16 uc_watch_field(struct uc_watch_flow *flow,
					    const struct uc_segment *segment, __u8 wscale)
{
	__u32 grain_bytes = 1U << (wscale & 15), room_bytes, field;

	if (uc_before(flow->given, flow->edge))
		flow->given = flow->edge;
	room_bytes = flow->given - segment->ack;
	/* invalid numbers: the receiver's window */
	if (room_bytes - 1 >= 1U << 30)
		return segment->window;
	field = (room_bytes + grain_bytes - 1) >> (wscale & 15);
	field = uc_min(field, segment->window);
	if (uc_after(segment->ack + (field << (wscale & 15)), flow->given))
		flow->given = segment->ack + (field << (wscale & 15));
	return field;
}

/*
 * Handles a segment of the guest to the end that sends the data. `path`: the receiving host's
 * record of it; `bucket`: that of the link; `random`: 32 random bits. The window returned is at
 * most the receiver's, and 0 only if the receiver's is.
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
	/* A SYN advertises no window yet (RFC 9293 §3.8.6), but the SYN is what is paced: then
	 * everything that answers it is paced as well, the SYN-ACKs too. */
	if (syn && !(segment->flags & UC_ACK) && !policy->observe)
		answer.grant_bytes = uc_watch_charge(flow, policy, path, bucket);
	uc_merge(answer.grant_bytes, now_ns);
	/* times of the path and of the link were compared with it */
	uc_merge(now_ns, random);
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
	uc_watch_merge(path, now_ns);
	if (policy->observe)
		return answer;
	if (flow->stage == UC_WATCH_ROUNDS)
		answer.window = uc_watch_field(flow, segment, syn ? 0 : flow->wscale);
	if (first)
		answer.grant_bytes = uc_watch_charge(flow, policy, path, bucket);
	return answer;
}

#endif
