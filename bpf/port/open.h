/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Opens a flow for a SYN: finds the rule of the port's plan and a place for the flow. Also handles
 * SYN-ACKs. Both are rare and need much stack, so they have a program of their own, uc_open_port,
 * which the port's programs tail-call; the parsed packet is in `pending`.
 */
#ifndef UC_OPEN_H
#define UC_OPEN_H

#include "again.h"
#include "share.h"

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
		uc_begin_slot(fresh, how, now->frame.dscp);
		fresh->number = state->number;
		fresh->seen = 0;
		fresh->bits = UC_SLOT_HALF_OPEN;
		if (annexed) {
			/* a CPU may have joined an earlier flow at this place while another
			 * removed it */
			uc_forget_member(now->place);
			fresh->bits |= UC_SLOT_ANNEXED;
			fresh->flow.annex_at = now->annex;
		}
		if (!uc_write_in(skb)) {
			uc_give_back(now);
			reason = UC_TABLE_FULL;
		}
	}
	if (reason != UC_TRANSLATED)
		now->edit = uc_edit_none(&now->segment);
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

/* Enters the flow if `reason` says that it was opened or adopted, or if it has `begun` before.
 * Returns the reason, or why there is no room. */
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
	const struct uc_asking *earlier = bpf_map_lookup_elem(&asked, &now->key);
	struct uc_asking asking = {.tag = uc_tag(now->hash), .dscp = now->frame.dscp};

	if (reason != UC_TRANSLATED) {
		bpf_map_delete_elem(&asked, &now->key);
		return reason;
	}
	uc_pack_syn(&asking.syn, &now->segment);
	if (earlier && earlier->tag == asking.tag)
		uc_add_offers(&asking.syn, &earlier->syn);
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
		now->frame.dscp = asking->dscp;
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
		now->frame.dscp = slot->kept_dscp;
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
