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

/*
 * Takes a free place for the key in `pending`, and stores its index there. Returns 0 if none of the
 * places tried is free. A global function, for the verifier (see uc_join_group()).
 */
__attribute__((noinline)) int uc_take_place(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_cursor *cursor = uc_only_entry(&cursors);

	/* `skb` is unused, but a global function needs an argument */
	if (!skb || !now || !cursor || !cursor->places)
		return 0;
	for (int i = 0; i < UC_PLACES_TRIED; i++) {
		__u32 index = cursor->next++ % cursor->places;
		struct uc_place *place = bpf_map_lookup_elem(&places, &index);
		struct uc_key held;
		int taken = 0;

		if (!place)
			return 0;
		bpf_spin_lock(&place->lock);
		held = place->key;
		bpf_spin_unlock(&place->lock);
		if (!uc_is_free(&held, index, now->now_ns))
			continue;
		bpf_spin_lock(&place->lock);
		/* unless another CPU was faster; to compare the ports is enough in practice */
		if (place->key.ifindex == held.ifindex &&
		    place->key.guest_port == held.guest_port &&
		    place->key.remote_port == held.remote_port) {
			place->key = now->key;
			taken = 1;
		}
		bpf_spin_unlock(&place->lock);
		if (taken) {
			now->place = index;
			return 1;
		}
	}
	return 0;
}

/* Removes stale flows from the next few places. Returns how many it removed. */
__attribute__((noinline)) int uc_collect(struct __sk_buff *skb)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct uc_cursor *cursor = uc_only_entry(&cursors);
	int collected = 0;

	if (!skb || !cursor || !cursor->places)
		return 0;
	for (int i = 0; i < UC_PLACES_SWEPT; i++) {
		__u32 index = cursor->next++ % cursor->places;
		struct uc_place *place = bpf_map_lookup_elem(&places, &index);
		struct uc_slot *slot;
		struct uc_key held;

		if (!place)
			return collected;
		bpf_spin_lock(&place->lock);
		held = place->key;
		bpf_spin_unlock(&place->lock);
		if (!held.ifindex)
			continue;
		slot = bpf_map_lookup_elem(&flows, &held);
		if (!slot || slot->place != index || !uc_is_stale(&slot->flow, now_ns))
			continue;
		uc_forget(&held);
		collected++;
	}
	return collected;
}

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

/* Enters the flow. Returns UC_TRANSLATED, or why there is no room. */
static __always_inline enum uc_reason uc_enter(struct __sk_buff *skb, struct uc_pending *now,
					       const struct uc_opening *how, struct uc_slot *fresh)
{
	struct uc_port_state *state = bpf_map_lookup_elem(&ports, &now->key.ifindex);

	if (!state)
		return UC_NO_POLICY;
	fresh->tag = now->tag;
	uc_begin_slot(fresh, how, now->at.dscp);
	fresh->number = state->number;
	/* If a later step fails, no flow refers to the place and uc_is_free() finds it free. */
	if (!uc_take_place(skb))
		return UC_TABLE_FULL;
	fresh->place = now->place;
	if (!uc_admit(state, how->flows_max)) {
		uc_collect(skb);
		if (!uc_admit(state, how->flows_max))
			return UC_QUOTA_FULL;
	}
	if (bpf_map_update_elem(&flows, &now->key, fresh, BPF_NOEXIST)) {
		uc_release(&now->key.ifindex);
		return UC_TABLE_FULL;
	}
	if (uc_is_coupled(&fresh->flow))
		uc_forget_member(fresh->place);
	return UC_TRANSLATED;
}

/* Handles a SYN on the ports of a known flow, and sets `answer`. Returns 0 if the flow has been
 * removed meanwhile. */
static __always_inline int uc_open_again(struct uc_pending *now, const struct uc_opening *how,
					 struct uc_slot *slot, enum uc_reason *answer)
{
	enum uc_reason reason;
	__u8 begins, coupled;
	__u32 place;

	if (!uc_lock_slot(slot, now->tag))
		return 0;
	begins = !uc_stays(&slot->flow, &now->segment, now->now_ns);
	reason = uc_open(&slot->flow, &how->policy, &now->segment, now->now_ns, &now->edit);
	if (!begins)
		slot->kept_dscp = now->at.dscp;
	else if (reason == UC_TRANSLATED)
		uc_begin_slot(slot, how, now->at.dscp);
	place = slot->place;
	coupled = uc_is_coupled(&slot->flow);
	bpf_spin_unlock(&slot->lock);
	if (uc_forgets(reason))
		uc_forget(&now->key);
	else if (begins && reason == UC_TRANSLATED && coupled)
		uc_forget_member(place);
	*answer = reason;
	return 1;
}

/* Handles a SYN-ACK of a known flow; it may belong to another connection than the flow. */
static __always_inline enum uc_reason
uc_open_answered(struct uc_pending *now, const struct uc_opening *how, struct uc_slot *slot)
{
	const struct uc_noted nothing = {};
	enum uc_reason reason;
	__u8 begins, coupled;
	__u32 place;

	if (!uc_lock_slot(slot, now->tag))
		return UC_NO_HANDSHAKE;
	uc_before_segment(slot);
	reason = uc_reopen(&slot->flow, &how->policy, &now->segment, now->now_ns, &now->edit);
	begins = reason == UC_TRANSLATED;
	if (begins) {
		uc_begin_slot(slot, how, slot->kept_dscp);
		slot->noted = nothing;
	}
	if (begins || reason == UC_NO_HANDSHAKE)
		reason = uc_answer(&slot->flow, &now->segment, now->now_ns, &now->edit);
	place = slot->place;
	coupled = uc_is_coupled(&slot->flow);
	bpf_spin_unlock(&slot->lock);
	if (uc_forgets(reason))
		uc_forget(&now->key);
	else if (begins && coupled)
		uc_forget_member(place);
	return reason;
}

/* Enters the flow of the segment in `pending`, which opens or adopts it. Returns the reason, or why
 * there is no room. */
static __always_inline enum uc_reason uc_enter_new(struct __sk_buff *skb, struct uc_pending *now,
						   const struct uc_opening *how,
						   struct uc_slot *fresh)
{
	enum uc_reason reason, room;

	if (uc_is_syn(&now->segment))
		reason =
			uc_open(&fresh->flow, &how->policy, &now->segment, now->now_ns, &now->edit);
	else
		reason = uc_adopt(&fresh->flow, &how->policy, &now->segment, now->now_ns,
				  &now->edit);
	if (reason != UC_TRANSLATED && reason != UC_HELD)
		return reason;
	room = uc_enter(skb, now, how, fresh);
	if (room == UC_TRANSLATED)
		return reason;
	now->edit = uc_edit_none(&now->segment);
	return uc_verdict_of(uc_is_strict(&how->policy), now->segment.direction, room);
}

/* Handles the SYN or SYN-ACK in `pending`, or at a strict port a segment of an unknown flow. */
static __always_inline enum uc_reason uc_open_flow(struct __sk_buff *skb, struct uc_pending *now)
{
	struct uc_opening *how = uc_opening_now();
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &now->key);
	struct uc_slot *fresh = uc_scratch_slot();
	__u8 syn = uc_is_syn(&now->segment);
	enum uc_reason reason;

	if (!how || !fresh)
		return UC_TABLE_FULL;
	/* the DSCP of the connection's SYN selects its rule */
	if (slot && !syn)
		now->at.dscp = slot->kept_dscp;
	/* even without a rule an older flow of the same ports must be removed below */
	uc_find_rule(skb);
	if (slot && !syn)
		return uc_open_answered(now, how, slot);
	if (slot && uc_open_again(now, how, slot, &reason))
		return reason;
	return uc_enter_new(skb, now, how, fresh);
}

#endif
