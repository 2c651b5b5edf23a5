/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How flows begin, begin again and end: the steps around uc_translate_later() that all platforms
 * share. A platform gives a segment and what it knows, and does what the answer says:
 *
 *   uc_step_unknown()  a segment of no known flow
 *   uc_step_known()    a SYN or SYN-ACK of a known flow
 *
 * The platform has a place for each flow, and for the annex of a flow that needs one; it also
 * stores the peers' SYNs that guests have not answered. A SYN on the ports of a known flow may
 * begin another connection under another rule, so that the flow then needs an annex where it had
 * none, or the other way round: the platform brings the annex that the flow would have next.
 */
#ifndef UC_STEP_H
#define UC_STEP_H

#include "core.h"

/* uc_step.then: what happens before the platform writes the edit; 0: nothing. */
#define UC_STEP_ENTERS  0x01 /* unknown flow: the platform enters it into its table */
#define UC_STEP_BEGINS  0x02 /* known flow: it has begun again, with its next annex */
#define UC_STEP_STORES  0x04 /* known flow: it has stored the SYN, which may begin another */
#define UC_STEP_REMOVES 0x08 /* known flow: the platform removes it */
#define UC_STEP_ANEW    0x10 /* after that: the platform calls uc_step_unknown() */
#define UC_STEP_ANNEXED 0x20 /* with UC_STEP_ENTERS: the flow needs an annex */

struct uc_step {
	enum uc_reason reason; /* as of uc_translate() */
	__u32 then;            /* UC_STEP_* */
};

/* What a flow that begins now gets, by the platform's rule for its SYN. */
struct uc_given {
	const struct uc_policy *policy;
	__u8 share; /* the flow's weight in a sum of windows; 0: it shares none */
};

/* A peer's SYN that the guest has not answered. */
struct uc_asked {
	struct uc_kept_syn syn;
	__u8 stored; /* 0: there is none */
};

/* Which annex a known flow needs if it begins again. UC_NEXT_NEVER: its rule needs one, but this
 * segment cannot begin the flow again, so the platform takes none. */
enum uc_next_annex { UC_NEXT_NONE, UC_NEXT_ANNEX, UC_NEXT_NEVER };

/* Returns which annex a known flow needs for a SYN or SYN-ACK. Call it before uc_step_known(). */
static __always_inline enum uc_next_annex uc_step_needs(const struct uc_flow *flow,
							const struct uc_given *given,
							const struct uc_segment *segment)
{
	__u32 asked = UC_FLOW_GUEST_ASKED | UC_FLOW_PEER_ASKED;

	if (!uc_needs_annex(given->policy, given->share))
		return UC_NEXT_NONE;
	if (uc_is_syn(segment) ? flow->stage != UC_TRANSLATING : flow->bits & asked)
		return UC_NEXT_ANNEX;
	return UC_NEXT_NEVER;
}

/* Undoes the edit for a flow that has begun, but for which the platform has no room. `reason`:
 * UC_TABLE_FULL or UC_QUOTA_FULL. Returns the reason to count the segment by, which in strict mode
 * drops it. */
static __always_inline enum uc_reason uc_step_without_room(const struct uc_policy *policy,
							   const struct uc_segment *segment,
							   enum uc_reason reason,
							   struct uc_edit *edit)
{
	*edit = uc_edit_none(segment);
	return uc_verdict_of(uc_is_strict(policy), segment->direction, reason);
}

/* Handles a SYN of no known flow. A SYN of the peer is stored in `asked`; the platform enters its
 * flow at the guest's SYN-ACK. */
static __always_inline struct uc_step uc_step_syn(struct uc_flow *flow, struct uc_annex *annex,
						  const struct uc_given *given,
						  struct uc_asked *asked,
						  const struct uc_segment *segment, __u64 now_ns,
						  struct uc_edit *edit)
{
	__u8 from_guest = segment->direction == UC_FROM_GUEST, met = 0;
	struct uc_kept_syn earlier = asked->syn;
	struct uc_step step = {};

	/* behind a SYN of the peer that the guest has not answered */
	if (from_guest && asked->stored)
		met = uc_begin_asked(flow, annex, given->policy, &asked->syn, now_ns);
	/* now, since it decides where a SYN is stored */
	if (met)
		flow->share = given->share;
	step.reason = uc_open(flow, annex, given->policy, segment, now_ns, edit);
	if (from_guest) {
		asked->stored &= uc_drops(step.reason);
		if (step.reason == UC_TRANSLATED || (met && step.reason == UC_NO_HANDSHAKE))
			step.then = UC_STEP_ENTERS;
		return step;
	}
	if (step.reason == UC_TRANSLATED) {
		uc_pack_syn(&asked->syn, segment);
		if (asked->stored)
			uc_add_offers(&asked->syn, &earlier);
	}
	asked->stored = step.reason == UC_TRANSLATED;
	return step;
}

/* Handles any other segment of no known flow. A SYN-ACK of the guest may answer a stored SYN, whose
 * flow then begins. Strict mode adopts the flow of the guest's data (uc_adopt()). */
static __always_inline struct uc_step uc_step_late(struct uc_flow *flow, struct uc_annex *annex,
						   const struct uc_given *given,
						   struct uc_asked *asked,
						   const struct uc_segment *segment, __u64 now_ns,
						   struct uc_edit *edit)
{
	struct uc_step step = {.reason = UC_NO_HANDSHAKE};

	if (asked->stored && segment->direction == UC_FROM_GUEST && segment->flags & UC_SYN)
		step.reason = uc_open_asked(flow, annex, given->policy, &asked->syn, segment,
					    now_ns, edit);
	if (step.reason != UC_NO_HANDSHAKE)
		asked->stored = 0;
	else
		step.reason = uc_adopt(flow, annex, given->policy, segment, now_ns, edit);
	if (step.reason == UC_TRANSLATED || step.reason == UC_HELD)
		step.then = UC_STEP_ENTERS;
	return step;
}

/*
 * Handles a segment of no known flow. `flow` and `annex` are zeroed memory of the platform, not yet
 * in its table. `asked` is the peer's stored SYN, if there is one; after the call it is what the
 * platform stores from now on.
 */
static __always_inline struct uc_step uc_step_unknown(struct uc_flow *flow, struct uc_annex *annex,
						      const struct uc_given *given,
						      struct uc_asked *asked,
						      const struct uc_segment *segment,
						      __u64 now_ns, struct uc_edit *edit)
{
	struct uc_step step =
		uc_is_syn(segment) ? uc_step_syn(flow, annex, given, asked, segment, now_ns, edit)
				   : uc_step_late(flow, annex, given, asked, segment, now_ns, edit);

	flow->share = given->share;
	if (step.then && uc_needs_annex(given->policy, given->share))
		step.then |= UC_STEP_ANNEXED;
	return step;
}

/* Passes a SYN that would begin a waiting flow again, but finds no room for its annex. The flow
 * waits on, and any answer to the guest counts. */
static __always_inline enum uc_reason
uc_wait_on(struct uc_flow *flow, const struct uc_policy *policy, const struct uc_segment *segment)
{
	if (segment->direction != UC_FROM_GUEST)
		return UC_NO_HANDSHAKE;
	flow->bits |= UC_FLOW_UNSURE;
	return uc_is_strict(policy) ? UC_STRICT_TABLE_FULL : UC_NO_HANDSHAKE;
}

/* Handles a SYN on the ports of a known flow. `next`: as of uc_step_known(). */
static __always_inline struct uc_step uc_step_again(struct uc_flow *flow, struct uc_annex *annex,
						    struct uc_annex *next,
						    const struct uc_given *given,
						    const struct uc_segment *syn, __u64 now_ns,
						    struct uc_edit *edit)
{
	__u8 stays = uc_stays(flow, syn, now_ns);
	struct uc_step step = {.reason = UC_NO_HANDSHAKE};

	uc_merge(stays, now_ns);
	/* an old connection, of which nobody has heard for long */
	if (!stays && flow->stage == UC_TRANSLATING) {
		step.then = UC_STEP_REMOVES | UC_STEP_ANEW;
		return step;
	}
	if (stays || next)
		step.reason = uc_open(flow, stays ? annex : next, given->policy, syn, now_ns, edit);
	else
		step.reason = uc_wait_on(flow, given->policy, syn);
	if (stays)
		step.then = UC_STEP_STORES;
	else if (step.reason == UC_TRANSLATED)
		step.then = UC_STEP_BEGINS;
	if (uc_forgets(step.reason))
		step.then |= UC_STEP_REMOVES;
	return step;
}

/* Handles a SYN-ACK on the ports of a known flow; it may answer another SYN than the flow's.
 * `next`: as of uc_step_known(). */
static __always_inline struct uc_step uc_step_answered(struct uc_flow *flow, struct uc_annex *annex,
						       struct uc_annex *next,
						       const struct uc_given *given,
						       const struct uc_segment *answer,
						       __u64 now_ns, struct uc_edit *edit)
{
	struct uc_step step = {
		.reason = uc_reopen(flow, annex, given->policy, answer, now_ns, edit),
	};

	if (step.reason == UC_TRANSLATED)
		step.then = UC_STEP_BEGINS;
	if (step.then && !next) {
		/* invariant "no false signal": the host may have asked for ECN in the guest's name
		 */
		if (answer->direction == UC_TO_GUEST)
			uc_clear_feedback(edit);
		step.reason = UC_TABLE_FULL;
	} else if (step.then || step.reason == UC_NO_HANDSHAKE) {
		step.reason = uc_answer(flow, step.then ? next : annex, answer, now_ns, edit);
	}
	if (uc_forgets(step.reason))
		step.then |= UC_STEP_REMOVES;
	if (step.reason == UC_TABLE_FULL)
		step.reason = uc_verdict_of(uc_is_strict(given->policy), answer->direction,
					    UC_TABLE_FULL);
	return step;
}

/*
 * Handles a SYN or SYN-ACK of a known flow, whose annex is `annex`; for a flow without one, pass
 * the flow's own memory. `next`: the annex that the flow has if it begins again, emptied unless it
 * is the same one; the flow's own memory if it needs none then (uc_step_needs()); NULL if it needs
 * one and has none.
 */
static __always_inline struct uc_step uc_step_known(struct uc_flow *flow, struct uc_annex *annex,
						    struct uc_annex *next,
						    const struct uc_given *given,
						    const struct uc_segment *segment, __u64 now_ns,
						    struct uc_edit *edit)
{
	struct uc_step step =
		uc_is_syn(segment)
			? uc_step_again(flow, annex, next, given, segment, now_ns, edit)
			: uc_step_answered(flow, annex, next, given, segment, now_ns, edit);

	if (step.then & UC_STEP_BEGINS)
		flow->share = given->share;
	return step;
}

#endif
