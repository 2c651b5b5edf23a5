/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A place of the flow table, and what a platform does with it around the core. The moves are those
 * of bpf/port/port.bpf.c without a packet, as in src/slot.rs.
 */
#ifndef UC_FUZZ_PLACE_H
#define UC_FUZZ_PLACE_H

#include "core.h"

struct place {
	struct uc_whole whole;
	struct uc_policy policy;
	struct uc_kept_syn asked;    /* the peer's SYN that the guest has not answered */
	struct uc_ccc_answer answer; /* the group's answer to each report */
	__u8 share;
	__u8 has_flow;
	__u8 has_asked;
};

/* The entry points, each compiled once. */
static __attribute__((noinline)) enum uc_reason open_flow(struct uc_whole *whole,
							  const struct uc_policy *policy,
							  const struct uc_segment *segment,
							  __u64 now_ns, struct uc_edit *edit)
{
	return uc_open(&whole->flow, &whole->annex, policy, segment, now_ns, edit);
}

/* Removes a stale flow before a SYN. */
static void place_sweep(struct place *place, const struct uc_segment *segment, __u64 now_ns)
{
	if (uc_is_syn(segment) && place->has_flow && place->whole.flow.stage == UC_TRANSLATING &&
	    uc_is_stale(&place->whole.flow, now_ns))
		place->has_flow = 0;
}

/* Passes a SYN: enters the flow, if there is to be one; the peer's is stored for the answer. */
static enum uc_reason place_syn(struct place *place, const struct uc_segment *segment, __u64 now_ns,
				struct uc_edit *edit)
{
	__u8 is_peers = segment->direction == UC_TO_GUEST, was_there = place->has_flow, met = 0;
	struct uc_whole whole = {};
	enum uc_reason reason;

	if (was_there)
		whole = place->whole;
	if (place->has_asked && !is_peers && !was_there)
		met = uc_begin_asked(&whole.flow, &whole.annex, &place->policy, &place->asked,
				     now_ns);
	/* now, since it decides where a SYN is stored */
	if (met)
		whole.flow.share = place->share;
	reason = open_flow(&whole, &place->policy, segment, now_ns, edit);
	if (!uc_drops(reason))
		place->has_asked = 0;
	if (reason == UC_TRANSLATED && is_peers && !was_there) {
		uc_pack_syn(&place->asked, segment);
		place->has_asked = 1;
	} else if (reason == UC_TRANSLATED || (met && reason == UC_NO_HANDSHAKE)) {
		whole.flow.share = place->share;
		place->whole = whole;
		place->has_flow = 1;
	} else if (was_there) {
		place->whole = whole;
		place->has_flow = !uc_forgets(reason);
	}
	return reason;
}

/* Passes a segment of no known flow: a SYN-ACK of the guest that answers the stored SYN, or what a
 * strict policy enters. */
static enum uc_reason place_stranger(struct place *place, const struct uc_segment *segment,
				     __u64 now_ns, struct uc_edit *edit)
{
	enum uc_reason reason = UC_NO_HANDSHAKE;
	struct uc_whole whole = {};

	if (place->has_asked && segment->direction == UC_FROM_GUEST) {
		reason = uc_open_asked(&whole.flow, &whole.annex, &place->policy, &place->asked,
				       segment, now_ns, edit);
		place->has_asked = reason == UC_NO_HANDSHAKE;
	}
	if (reason == UC_NO_HANDSHAKE) {
		whole = (struct uc_whole){};
		reason = uc_adopt(&whole.flow, &whole.annex, &place->policy, segment, now_ns, edit);
	}
	if (reason == UC_TRANSLATED || reason == UC_HELD) {
		whole.flow.share = place->share;
		place->whole = whole;
		place->has_flow = 1;
	}
	return reason;
}

/* Passes any segment but a SYN. */
static enum uc_reason place_other(struct place *place, const struct uc_segment *segment,
				  __u64 now_ns, struct uc_edit *edit)
{
	struct uc_flow *flow = &place->whole.flow;
	struct uc_annex *annex = &place->whole.annex;
	enum uc_reason reason;
	__u8 awaits;

	if (!place->has_flow)
		return place_stranger(place, segment, now_ns, edit);
	if ((segment->flags & (UC_SYN | UC_ACK | UC_RST | UC_FIN)) == (UC_SYN | UC_ACK)) {
		reason = uc_reopen(flow, annex, &place->policy, segment, now_ns, edit);
		if (reason == UC_TRANSLATED)
			flow->share = place->share;
		else if (uc_forgets(reason))
			place->has_flow = 0;
		if (uc_forgets(reason) || uc_drops(reason))
			return reason;
	}
	reason = uc_translate(flow, annex, segment, now_ns, edit);
	awaits = uc_awaits(flow);
	if (awaits) {
		uc_coupled_report(flow, annex, now_ns);
		uc_tell_share(flow, annex, segment, awaits,
			      uc_is_closed(flow) ? NULL : &place->answer, edit);
	}
	if (uc_forgets(reason))
		place->has_flow = 0;
	return reason;
}

/* Passes a segment, after place_sweep(); `edit` becomes what the platform writes. */
static enum uc_reason place_pass(struct place *place, const struct uc_segment *segment,
				 __u64 now_ns, struct uc_edit *edit)
{
	return uc_is_syn(segment) ? place_syn(place, segment, now_ns, edit)
				  : place_other(place, segment, now_ns, edit);
}

#endif
