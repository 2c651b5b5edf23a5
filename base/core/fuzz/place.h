/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A place of the flow table, and what a platform does with it around the core.
 */
#ifndef UC_FUZZ_PLACE_H
#define UC_FUZZ_PLACE_H

#include "step.h"

struct place {
	struct uc_whole whole;
	struct uc_policy policy;
	struct uc_asked asked;       /* the peer's SYN that the guest has not answered */
	struct uc_ccc_answer answer; /* the group's answer to each report */
	__u8 share;
	__u8 has_flow;
};

/* Passes a segment of no known flow. */
static enum uc_reason place_unknown(struct place *place, const struct uc_segment *segment,
				    __u64 now_ns, struct uc_edit *edit)
{
	struct uc_given given = {.policy = &place->policy, .share = place->share};
	struct uc_whole whole = {};
	struct uc_step step = uc_step_unknown(&whole.flow, &whole.annex, &given, &place->asked,
					      segment, now_ns, edit);

	if (step.then & UC_STEP_ENTERS) {
		place->whole = whole;
		place->has_flow = 1;
	}
	return step.reason;
}

/* Passes a SYN or SYN-ACK of the flow. Returns 0 if it is then a segment of no known flow. */
static int place_known(struct place *place, const struct uc_segment *segment, __u64 now_ns,
		       struct uc_edit *edit, enum uc_reason *reason)
{
	struct uc_given given = {.policy = &place->policy, .share = place->share};
	struct uc_annex *annex = &place->whole.annex;
	struct uc_step step =
		uc_step_known(&place->whole.flow, annex, annex, &given, segment, now_ns, edit);

	place->has_flow = !(step.then & UC_STEP_REMOVES);
	*reason = step.reason;
	return !(step.then & UC_STEP_ANEW);
}

/* Passes a segment of the flow after its handshake's. */
static enum uc_reason place_later(struct place *place, const struct uc_segment *segment,
				  __u64 now_ns, struct uc_edit *edit)
{
	struct uc_flow *flow = &place->whole.flow;
	struct uc_annex *annex = &place->whole.annex;
	enum uc_reason reason = uc_translate_later(flow, annex, segment, now_ns, edit);
	__u8 awaits = uc_awaits(flow);

	if (awaits) {
		uc_coupled_report(flow, annex, now_ns);
		uc_tell_share(flow, annex, segment, awaits,
			      uc_is_closed(flow) ? NULL : &place->answer, edit);
	}
	return reason;
}

/* Removes a stale flow before a SYN. */
static void place_sweep(struct place *place, const struct uc_segment *segment, __u64 now_ns)
{
	if (uc_is_syn(segment) && place->has_flow && place->whole.flow.stage == UC_TRANSLATING &&
	    uc_is_stale(&place->whole.flow, now_ns))
		place->has_flow = 0;
}

/* Passes a segment, after place_sweep(); `edit` becomes what the platform writes. */
static enum uc_reason place_pass(struct place *place, const struct uc_segment *segment,
				 __u64 now_ns, struct uc_edit *edit)
{
	enum uc_reason reason;

	if (place->has_flow && (segment->flags & (UC_SYN | UC_RST)) != UC_SYN)
		return place_later(place, segment, now_ns, edit);
	if (place->has_flow && place_known(place, segment, now_ns, edit, &reason))
		return reason;
	return place_unknown(place, segment, now_ns, edit);
}

#endif
