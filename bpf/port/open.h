/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Opens a flow for a SYN: finds the rule of the port's plan and a place for the flow. Also handles
 * SYN-ACKs. Both are rare and need much stack, so they have a program of their own, uc_open_port,
 * which the port's programs tail-call; the parsed packet is in `pending`.
 */
#ifndef UC_OPEN_H
#define UC_OPEN_H

#include "rules.h"
#include "share.h"
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

/* Enters a half-open flow. Returns UC_TRANSLATED, or why there is no room; the edit is then none.
 */
static __always_inline enum uc_reason uc_enter(struct __sk_buff *skb, struct uc_pending *now,
					       const struct uc_opening *how, struct uc_slot *fresh)
{
	struct uc_port_state *state = bpf_map_lookup_elem(&ports, &now->key.ifindex);
	enum uc_reason reason = UC_NO_POLICY;

	__u8 annexed = uc_needs_annex(&how->policy, how->share);

	if (state)
		reason = uc_make_room(skb, now, state, how->flows_max, annexed);
	if (state && reason == UC_TRANSLATED) {
		fresh->key = now->key;
		uc_begin_slot(fresh, how, now->at.dscp);
		fresh->number = state->number;
		fresh->bits = UC_SLOT_HALF_OPEN;
		if (annexed) {
			/* of an earlier flow at this place, which a CPU joined while another
			 * removed it */
			uc_forget_member(now->place);
			fresh->bits |= UC_SLOT_ANNEXED;
			fresh->flow.annex_at = now->annex;
		}
		if (!uc_settle_in(skb)) {
			uc_give_back(now);
			reason = UC_TABLE_FULL;
		}
	}
	if (reason != UC_TRANSLATED)
		now->edit = uc_edit_none(&now->segment);
	return reason;
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

/* Returns the place that a flow leaves when it has begun again: that of an annex that it keeps no
 * more. What was taken for it is its own now. */
static __always_inline __u32 uc_left_over(const struct uc_pending *now, __u32 annex_place,
					  __u32 next_place)
{
	return annex_place == next_place || annex_place == now->place ? UC_NO_PLACE : annex_place;
}

/* Returns the place of the annex that the slot's flow would have, if it began again by a rule: its
 * own, or without one the flow's place, or one that is taken here and now in `spare`, too. Returns
 * UC_NO_PLACE if there is no room, or unless it `may_begin`. */
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

/* Passes a SYN that would begin a waiting flow again, but finds no room for its annex. The flow waits
 * on, and any answer to the guest counts. */
static __always_inline enum uc_reason uc_wait_on(const struct uc_pending *now,
						 const struct uc_opening *how, struct uc_slot *slot)
{
	if (now->segment.direction != UC_FROM_GUEST)
		return UC_NO_HANDSHAKE;
	slot->flow.bits |= UC_FLOW_UNSURE;
	return uc_is_strict(&how->policy) ? UC_STRICT_TABLE_FULL : UC_NO_HANDSHAKE;
}

/* Handles a SYN on the ports of a known flow, and sets `answer`. Returns 0 if the flow is gone: it
 * was removed meanwhile, or was stale. */
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
		slot->kept_dscp = now->at.dscp;
	if (begins && reason == UC_TRANSLATED) {
		uc_begin_again(slot, how, now->place, next_place, now->at.dscp);
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
		slot->flow.seen = 0;
	}
	if (begins && !next) {
		/* invariant "no false signal": the host may have asked for ECN in the guest's name
		 */
		if (now->segment.direction == UC_TO_GUEST)
			now->edit.flags &= ~(UC_ECE | UC_CWR);
		reason = UC_TABLE_FULL;
	} else if (begins) {
		reason = uc_answer(&slot->flow, next, &now->segment, now->now_ns, &now->edit);
	} else if (reason == UC_NO_HANDSHAKE) {
		reason = uc_answer(&slot->flow, annex, &now->segment, now->now_ns, &now->edit);
	}
	settled = !uc_forgets(reason) && uc_has_settled(slot);
	if (uc_forgets(reason))
		removed = uc_remove(slot, now);
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

/* Notes in the guest's SYN in `pending` whether its port may ask for ECN. */
static __always_inline void uc_look_at_hooks(struct uc_pending *now)
{
	struct uc_hooks *seen = uc_hooks_of(uc_number_of(&now->key.ifindex));

	if (seen && now->segment.direction == UC_FROM_GUEST)
		now->segment.blind = !uc_hooks_ask(seen, now->now_ns);
}

/* Begins a flow with the peer's stored SYN, if there is one, before a SYN of the guest. Returns
 * whether it has begun. */
static __always_inline __u8 uc_meet_stored(const struct uc_pending *now,
					   const struct uc_opening *how, struct uc_slot *fresh,
					   struct uc_annex *annex)
{
	const struct uc_asking *asking = bpf_map_lookup_elem(&asked, &now->key);
	struct uc_kept_syn syn;
	__u8 begun;

	if (!asking || asking->tag != uc_tag(now->hash))
		return 0;
	syn = asking->syn;
	begun = uc_begin_asked(&fresh->flow, annex, &how->policy, &syn, now->now_ns);
	/* now, since it decides where a SYN is stored */
	if (begun)
		fresh->flow.share = how->share;
	return begun;
}

/* Enters the flow that `reason` has opened or adopted, or that has `begun` before. Returns the
 * reason, or why there is no room. */
static __always_inline enum uc_reason uc_enter_new(struct __sk_buff *skb, struct uc_pending *now,
						   const struct uc_opening *how,
						   struct uc_slot *fresh, enum uc_reason reason,
						   __u8 begun)
{
	enum uc_reason room;

	if (reason != UC_TRANSLATED && reason != UC_HELD && !(begun && reason == UC_NO_HANDSHAKE))
		return reason;
	room = uc_enter(skb, now, how, fresh);
	if (room == UC_TRANSLATED)
		return reason;
	return uc_verdict_of(uc_is_strict(&how->policy), now->segment.direction, room);
}

/* Stores a peer's SYN of no known flow until the guest answers it. `reason`: of uc_open(). Returns
 * what becomes of the SYN. */
static __always_inline enum uc_reason uc_ask_guest(struct uc_pending *now, enum uc_reason reason)
{
	struct uc_asking asking = {.tag = uc_tag(now->hash), .dscp = now->at.dscp};

	if (reason != UC_TRANSLATED) {
		bpf_map_delete_elem(&asked, &now->key);
		return reason;
	}
	uc_pack_syn(&asking.syn, &now->segment);
	if (!bpf_map_update_elem(&asked, &now->key, &asking, BPF_ANY))
		return UC_TRANSLATED;
	now->edit = uc_edit_none(&now->segment);
	return UC_TABLE_FULL;
}

/* Handles a segment of no known flow that is no SYN. The guest's SYN-ACK may answer a stored SYN,
 * which opens the flow; of other segments strict mode adopts the flow. */
static __always_inline enum uc_reason uc_open_late(struct __sk_buff *skb, struct uc_pending *now,
						   const struct uc_opening *how,
						   struct uc_slot *fresh, struct uc_annex *annex)
{
	const struct uc_asking *asking = bpf_map_lookup_elem(&asked, &now->key);
	enum uc_reason reason = UC_NO_HANDSHAKE;
	struct uc_kept_syn syn = {};
	/* another tag: the kernel has reused the element meanwhile */
	__u8 stored = asking && asking->tag == uc_tag(now->hash) &&
		      now->segment.direction == UC_FROM_GUEST && now->segment.flags & UC_SYN;

	if (stored) {
		syn = asking->syn;
		/* the DSCP of the connection's SYN selects its rule */
		now->at.dscp = asking->dscp;
	}
	uc_find_rule(skb);
	if (stored)
		reason = uc_open_asked(&fresh->flow, annex, &how->policy, &syn, &now->segment,
				       now->now_ns, &now->edit);
	if (reason != UC_NO_HANDSHAKE)
		bpf_map_delete_elem(&asked, &now->key);
	else
		reason = uc_adopt(&fresh->flow, annex, &how->policy, &now->segment, now->now_ns,
				  &now->edit);
	return uc_enter_new(skb, now, how, fresh, reason, 0);
}

/* Handles the SYN or SYN-ACK in `pending`, or at a strict port a segment of an unknown flow. */
static __always_inline enum uc_reason uc_open_flow(struct __sk_buff *skb, struct uc_pending *now)
{
	struct uc_opening *how = uc_opening_now();
	struct uc_scratch *scratch_now = uc_scratch_now();
	struct uc_slot *fresh = (struct uc_slot *)scratch_now, *slot;
	__u8 syn = uc_is_syn(&now->segment), begun = 0;
	enum uc_reason reason;

	if (!how || !fresh)
		return UC_TABLE_FULL;
	uc_find_pending(skb);
	slot = bpf_map_lookup_elem(&flows, &now->place);
	if (!slot && !syn)
		return uc_open_late(skb, now, how, fresh, &scratch_now->annex);
	/* the DSCP of the connection's SYN selects its rule */
	if (slot && !syn)
		now->at.dscp = slot->kept_dscp;
	if (syn)
		uc_look_at_hooks(now);
	/* even without a rule an older flow of the same ports must be removed below */
	uc_find_rule(skb);
	if (slot && !syn)
		return uc_open_answered(skb, now, how, slot);
	if (slot && uc_open_again(skb, now, how, slot, &reason))
		return reason;
	if (now->segment.direction == UC_FROM_GUEST)
		begun = uc_meet_stored(now, how, fresh, &scratch_now->annex);
	reason = uc_open(&fresh->flow, &scratch_now->annex, &how->policy, &now->segment,
			 now->now_ns, &now->edit);
	if (now->segment.direction != UC_FROM_GUEST)
		return uc_ask_guest(now, reason);
	if (!uc_drops(reason))
		bpf_map_delete_elem(&asked, &now->key);
	return uc_enter_new(skb, now, how, fresh, reason, begun);
}

#endif
