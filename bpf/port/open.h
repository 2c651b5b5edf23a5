/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds places for what core/step.h decides of SYNs, SYN-ACKs and, at a strict port, other segments
 * of unknown flows. They are rare and need much stack, so they have a program of their own,
 * uc_open_port, which the port's programs tail-call; the parsed packet is in `pending`.
 */
#ifndef UC_OPEN_H
#define UC_OPEN_H

#include "../../core/step.h"
#include "marked.h"
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
}

/* Enters a half-open flow. Returns UC_TRANSLATED, or why there is no room. */
static __always_inline enum uc_reason uc_enter(struct __sk_buff *skb, struct uc_pending *now,
					       const struct uc_opening *how, struct uc_slot *fresh,
					       __u8 annexed)
{
	struct uc_port_state *state = bpf_map_lookup_elem(&ports, &now->key.ifindex);
	enum uc_reason reason;

	if (!state)
		return UC_NO_POLICY;
	reason = uc_make_room(skb, now, state, how->flows_max, annexed);
	if (reason != UC_TRANSLATED)
		return reason;
	fresh->key = now->key;
	uc_begin_slot(fresh, how, now->frame.dscp);
	fresh->number = state->number;
	fresh->bits = UC_SLOT_HALF_OPEN;
	if (annexed) {
		/* a CPU may have joined an earlier flow at this place while another removed it */
		uc_forget_member(now->place);
		fresh->bits |= UC_SLOT_ANNEXED;
		fresh->flow.annex_at = now->annex;
	}
	if (uc_write_in(skb))
		return UC_TRANSLATED;
	uc_give_back(now);
	return UC_TABLE_FULL;
}

/* Sets `blind` of the guest's SYN in `pending` if its port may not ask for ECN. */
static __always_inline void uc_look_at_hooks(struct uc_pending *now)
{
	struct uc_hooks *seen = uc_hooks_of(uc_number_of(&now->key.ifindex));

	if (seen && now->segment.direction == UC_FROM_GUEST)
		now->segment.blind = !uc_hooks_ask(seen, now->now_ns);
}

/* Reads the peer's SYN that is stored for the key in `pending`. If the guest's SYN-ACK may answer
 * it, its DSCP becomes that of the packet, to select the rule. */
static __always_inline void uc_read_asked(struct uc_pending *now, struct uc_scratch *fresh)
{
	const struct uc_asking *asking = bpf_map_lookup_elem(&asked, &now->key);

	/* another tag: the kernel has reused the element meanwhile */
	if (!asking || asking->tag != uc_tag(now->hash))
		return;
	fresh->peers.syn = asking->syn;
	fresh->peers.stored = 1;
	fresh->had_asked = 1;
	if (now->segment.direction == UC_FROM_GUEST && !uc_is_syn(&now->segment))
		now->frame.dscp = asking->dscp;
}

/* Stores the peer's SYN in `pending` until the guest answers it, or forgets the one that was
 * stored. Returns 0 if there is no room. */
static __always_inline int uc_write_asked(const struct uc_pending *now,
					  const struct uc_scratch *fresh)
{
	struct uc_asking asking = {.tag = uc_tag(now->hash), .dscp = now->frame.dscp};

	if (fresh->peers.stored && now->segment.direction == UC_TO_GUEST &&
	    uc_is_syn(&now->segment)) {
		asking.syn = fresh->peers.syn;
		return !bpf_map_update_elem(&asked, &now->key, &asking, BPF_ANY);
	}
	if (fresh->had_asked && !fresh->peers.stored)
		bpf_map_delete_elem(&asked, &now->key);
	return 1;
}

/* Handles the segment in `pending`, of no known flow. Returns its reason. A global function, with a
 * stack frame of its own. */
__attribute__((noinline)) int uc_open_unknown(struct __sk_buff *skb)
{
	struct uc_opening *how = uc_opening_now();
	struct uc_pending *now = uc_pending_now();
	struct uc_scratch *fresh = uc_only_entry(&scratch);
	struct uc_slot *slot = (struct uc_slot *)fresh;
	enum uc_reason room = UC_TRANSLATED;
	struct uc_given given;
	struct uc_step step;

	if (!skb || !how || !now || !fresh)
		return UC_TABLE_FULL;
	given.policy = &how->policy;
	given.share = how->share;
	step = uc_step_unknown(&slot->flow, &fresh->annex, &given, &fresh->peers, &now->segment,
			       now->now_ns, &now->edit);
	uc_merge(step.reason, now->now_ns);
	uc_merge(step.then, now->now_ns);
	if (!uc_write_asked(now, fresh))
		room = UC_TABLE_FULL;
	else if (step.then & UC_STEP_ENTERS)
		room = uc_enter(skb, now, how, slot, !!(step.then & UC_STEP_ANNEXED));
	if (room == UC_TRANSLATED)
		return step.reason;
	return uc_step_without_room(&how->policy, &now->segment, room, &now->edit);
}

/* Returns the place of the annex that a known flow would have, if it began again by a rule: the
 * flow's own place if it needs none, otherwise that of its present annex, otherwise one that is
 * taken now, which is also in `spare`. UC_NO_PLACE: none is to be had. */
static __always_inline __u32 uc_next_place_of(struct __sk_buff *skb, struct uc_pending *now,
					      const struct uc_opening *how, __u32 annex_place,
					      enum uc_next_annex needs, __u32 *spare)
{
	*spare = UC_NO_PLACE;
	uc_merge(needs, now->now_ns);
	if (needs == UC_NEXT_NONE)
		return now->place;
	if (annex_place != now->place)
		return annex_place;
	if (needs == UC_NEXT_NEVER)
		return UC_NO_PLACE;
	uc_take_next_annex(skb, how->flows_max);
	*spare = now->annex;
	return *spare;
}

/* Records by which rule the slot's flow has just begun again, and that its annex is at a place; the
 * flow's own: it has none. Returns the place that it needs no more; UC_NO_PLACE: none. */
static __always_inline __u32 uc_begin_again(struct uc_slot *slot, const struct uc_pending *now,
					    const struct uc_opening *how, __u32 annex_place,
					    __u32 next_place)
{
	uc_begin_slot(slot, how, now->frame.dscp);
	slot->bits &= ~UC_SLOT_ANNEXED;
	if (next_place != now->place && next_place != UC_NO_PLACE) {
		slot->bits |= UC_SLOT_ANNEXED;
		slot->flow.annex_at = next_place;
	}
	return annex_place == next_place || annex_place == now->place ? UC_NO_PLACE : annex_place;
}

/* Returned by uc_open_known() if there is no such flow: it was removed meanwhile, or was stale, or
 * another CPU is entering it. */
#define UC_NOT_KNOWN (-1)

/* Handles the SYN or SYN-ACK in `pending`, whose flow has its index in `flows` there. Returns the
 * packet's reason. A global function, which the verifier checks once on its own. */
__attribute__((noinline)) int uc_open_known(struct __sk_buff *skb)
{
	struct uc_opening *how = uc_opening_now();
	struct uc_pending *now = uc_pending_now();
	__u32 spare, annex_place, next_place;
	struct uc_annex *annex, *next;
	__u8 answer, settled = 0, removed = 0;
	struct uc_given given;
	struct uc_slot *slot;
	struct uc_step step;

	if (!skb || !how || !now)
		return UC_NOT_KNOWN;
	slot = bpf_map_lookup_elem(&flows, &now->place);
	if (!slot)
		return UC_NOT_KNOWN;
	given.policy = &how->policy;
	given.share = how->share;
	answer = !uc_is_syn(&now->segment);
	uc_merge(answer, now->now_ns);
	annex_place = uc_annex_place(slot, now->place);
	next_place = uc_next_place_of(skb, now, how, annex_place,
				      uc_step_needs(&slot->flow, &given, &now->segment), &spare);
	annex = uc_annex_at(annex_place);
	next = uc_annex_at(next_place);
	if (!annex || !uc_lock_both(slot, &now->key, now->place, annex_place)) {
		uc_vacate(spare);
		return UC_NOT_KNOWN;
	}
	if (answer)
		now->facts.cwnd = slot->flow.reno.cwnd;
	step = uc_step_known(&slot->flow, annex, next, &given, &now->segment, now->now_ns,
			     &now->edit);
	uc_merge(step.reason, now->now_ns);
	uc_merge(step.then, now->now_ns);
	if (step.then & UC_STEP_STORES)
		slot->kept_dscp = now->frame.dscp;
	if (step.then & UC_STEP_BEGINS) {
		spare = uc_begin_again(slot, now, how, annex_place, next_place);
		if (answer)
			slot->seen = 0;
	}
	if (step.then & UC_STEP_REMOVES) {
		if (answer)
			now->facts.remote = uc_remote_news_of(&slot->flow);
		removed = uc_remove(slot, now);
	} else {
		settled = uc_has_settled(slot);
	}
	bpf_spin_unlock(&slot->lock);
	uc_vacate(spare);
	if (settled)
		uc_settle(&now->key.ifindex);
	/* before another flow can have the place */
	if (step.then & UC_STEP_BEGINS)
		uc_forget_member(now->place);
	if (step.then & UC_STEP_REMOVES)
		uc_forget(skb, now, removed);
	return step.then & UC_STEP_ANEW ? UC_NOT_KNOWN : (int)step.reason;
}

/* Handles the SYN or SYN-ACK in `pending`, or at a strict port a segment of an unknown flow. */
static __always_inline enum uc_reason uc_open_flow(struct __sk_buff *skb, struct uc_pending *now)
{
	struct uc_opening *how = uc_opening_now();
	struct uc_scratch *fresh = uc_scratch_now();
	struct uc_slot *slot;
	int reason;

	if (!how || !fresh)
		return UC_TABLE_FULL;
	if (now->segment.direction == UC_FROM_GUEST && now->segment.flags & UC_SYN)
		uc_hear_guest(&now->key, &now->segment, now->now_ns);
	uc_find_pending(skb);
	slot = bpf_map_lookup_elem(&flows, &now->place);
	/* the DSCP of the connection's SYN selects its rule */
	uc_read_asked(now, fresh);
	if (slot && !uc_is_syn(&now->segment))
		now->frame.dscp = slot->kept_dscp;
	if (uc_is_syn(&now->segment))
		uc_look_at_hooks(now);
	/* even without a rule an older flow of the same ports must be removed below */
	uc_find_rule(skb);
	reason = uc_open_known(skb);
	return reason == UC_NOT_KNOWN ? uc_open_unknown(skb) : reason;
}

#endif
