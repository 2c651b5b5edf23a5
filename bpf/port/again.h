/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A known flow that begins again: a SYN on its ports while it waits for an answer, or the answer to
 * a SYN that it stores (core/reopen.h). The new rule may want an annex where the old one had none,
 * or the other way round.
 */
#ifndef UC_AGAIN_H
#define UC_AGAIN_H

#include "rules.h"
#include "table.h"

/* Records in the slot which rule has opened the flow. */
static __always_inline void uc_begin_slot(struct uc_slot *slot, const struct uc_opening *how,
					  __u8 dscp)
{
	slot->generation = how->generation;
	slot->rule = how->rule;
	slot->rule_number = how->rule_number;
	slot->dscp = dscp;
	slot->flow.share = how->share;
}

/* Records by which rule the slot's flow has just begun again, and where its annex is: it has one
 * unless `annex_place` is the flow's own. */
static __always_inline void uc_begin_again(struct uc_slot *slot, const struct uc_opening *how,
					   __u32 place, __u32 annex_place, __u8 dscp)
{
	uc_begin_slot(slot, how, dscp);
	slot->bits &= ~UC_SLOT_ANNEXED;
	if (annex_place == place)
		return;
	slot->bits |= UC_SLOT_ANNEXED;
	slot->flow.annex_at = annex_place;
}

/* Returns the place of the annex that a flow needs no more, since it has begun again; UC_NO_PLACE:
 * none. The place in `spare` is the flow's own then. */
static __always_inline __u32 uc_left_over(const struct uc_pending *now, __u32 annex_place,
					  __u32 next_place)
{
	return annex_place == next_place || annex_place == now->place ? UC_NO_PLACE : annex_place;
}

/* Returns the place of the annex that a flow would have, if it began again by a rule: the flow's
 * own place if the rule needs none, otherwise that of its present annex, otherwise one that is
 * taken now, which is also in `spare`. UC_NO_PLACE: one would have to be taken, but there is no
 * room, or not unless it `may_begin`. */
static __always_inline __u32 uc_next_annex(struct __sk_buff *skb, struct uc_pending *now,
					   const struct uc_opening *how, __u32 annex_place,
					   __u8 may_begin, __u32 *spare)
{
	*spare = UC_NO_PLACE;
	if (!uc_needs_annex(&how->policy, how->share))
		return now->place;
	if (annex_place != now->place)
		return annex_place;
	if (!may_begin)
		return UC_NO_PLACE;
	uc_take_next_annex(skb, how->flows_max);
	*spare = now->annex;
	return *spare;
}

/* Passes a SYN that would begin a waiting flow again, but finds no room for its annex. The flow
 * waits on, and any answer to the guest counts. */
static __always_inline enum uc_reason uc_wait_on(const struct uc_pending *now,
						 const struct uc_opening *how, struct uc_slot *slot)
{
	if (now->segment.direction != UC_FROM_GUEST)
		return UC_NO_HANDSHAKE;
	slot->flow.bits |= UC_FLOW_UNSURE;
	return uc_is_strict(&how->policy) ? UC_STRICT_TABLE_FULL : UC_NO_HANDSHAKE;
}

/* Handles a SYN on the ports of a known flow, and sets `answer`. Returns 0 if there is no
 * such flow: it was removed meanwhile, or was stale, or another CPU is entering it. */
static __always_inline int uc_open_again(struct __sk_buff *skb, struct uc_pending *now,
					 const struct uc_opening *how, struct uc_slot *slot,
					 enum uc_reason *answer)
{
	__u32 spare, annex_place = uc_annex_place(slot, now->place);
	__u32 next_place = uc_next_annex(skb, now, how, annex_place,
					 slot->flow.stage != UC_TRANSLATING, &spare);
	struct uc_annex *annex = uc_annex_at(annex_place), *next = uc_annex_at(next_place);
	__u8 begins, gone, removed = 0;
	enum uc_reason reason;

	if (!annex || !uc_lock_both(slot, &now->key, now->place, annex_place)) {
		uc_vacate(spare);
		return 0;
	}
	begins = !uc_stays(&slot->flow, &now->segment, now->now_ns);
	gone = begins && slot->flow.stage == UC_TRANSLATING;
	if (!begins)
		next = annex;
	if (gone)
		reason = UC_NO_HANDSHAKE;
	else if (!next)
		reason = uc_wait_on(now, how, slot);
	else
		reason = uc_open(&slot->flow, next, &how->policy, &now->segment, now->now_ns,
				 &now->edit);
	if (!begins)
		slot->kept_dscp = now->frame.dscp;
	if (begins && reason == UC_TRANSLATED) {
		uc_begin_again(slot, how, now->place, next_place, now->frame.dscp);
		spare = uc_left_over(now, annex_place, next_place);
	}
	gone |= uc_forgets(reason);
	if (gone)
		removed = uc_remove(slot, now);
	bpf_spin_unlock(&slot->lock);
	uc_vacate(spare);
	if (gone)
		uc_forget(skb, now, removed);
	*answer = reason;
	return !gone || uc_forgets(reason);
}

/* Handles a SYN-ACK of a known flow; it may belong to another connection than the flow. */
static __always_inline enum uc_reason uc_open_answered(struct __sk_buff *skb,
						       struct uc_pending *now,
						       const struct uc_opening *how,
						       struct uc_slot *slot)
{
	__u32 spare, annex_place = uc_annex_place(slot, now->place);
	__u8 asked = !!(slot->flow.bits & (UC_FLOW_GUEST_ASKED | UC_FLOW_PEER_ASKED));
	__u32 next_place = uc_next_annex(skb, now, how, annex_place, asked, &spare);
	struct uc_annex *annex = uc_annex_at(annex_place), *next = uc_annex_at(next_place);
	__u8 begins, settled, removed = 0;
	enum uc_reason reason;

	if (!annex || !uc_lock_both(slot, &now->key, now->place, annex_place)) {
		uc_vacate(spare);
		return UC_NO_HANDSHAKE;
	}
	now->facts.cwnd = slot->flow.reno.cwnd;
	reason =
		uc_reopen(&slot->flow, annex, &how->policy, &now->segment, now->now_ns, &now->edit);
	begins = reason == UC_TRANSLATED;
	if (begins) {
		spare = uc_left_over(now, annex_place, next_place);
		uc_begin_again(slot, how, now->place, next ? next_place : now->place,
			       slot->kept_dscp);
		slot->seen = 0;
	}
	if (begins && !next) {
		/* invariant "no false signal": the host may have asked for ECN in the guest's name
		 */
		if (now->segment.direction == UC_TO_GUEST)
			uc_clear_feedback(&now->edit);
		reason = UC_TABLE_FULL;
	} else if (begins) {
		reason = uc_answer(&slot->flow, next, &now->segment, now->now_ns, &now->edit);
	} else if (reason == UC_NO_HANDSHAKE) {
		reason = uc_answer(&slot->flow, annex, &now->segment, now->now_ns, &now->edit);
	}
	settled = !uc_forgets(reason) && uc_has_settled(slot);
	if (uc_forgets(reason)) {
		now->facts.remote = uc_remote_news_of(&slot->flow);
		removed = uc_remove(slot, now);
	}
	bpf_spin_unlock(&slot->lock);
	uc_vacate(spare);
	if (settled)
		uc_settle(&now->key.ifindex);
	/* before another flow can have the place */
	if (begins)
		uc_forget_member(now->place);
	if (uc_forgets(reason))
		uc_forget(skb, now, removed);
	if (reason == UC_TABLE_FULL)
		return uc_verdict_of(uc_is_strict(&how->policy), now->segment.direction, reason);
	return reason;
}

#endif
