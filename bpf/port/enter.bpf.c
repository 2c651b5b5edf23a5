/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Enters flows that another host has handed over, whose handshake was translated there. User space
 * checks each flow, and runs this program once for it, with a frame that holds the flow's slot and
 * annex.
 *
 * A packet may interrupt the program, so it leaves the scratch memory of the port's programs alone.
 * Like them it holds one lock at a time, and only takes what is free or stale (places.h).
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "places.h"

/* Where the frame has the slot, and behind it the annex. */
#define UC_SLOT_AT  ETH_HLEN
#define UC_ANNEX_AT (UC_SLOT_AT + sizeof(struct uc_slot))

/* Offset of the first byte after a slot's key. */
#define UC_AFTER_KEY (__builtin_offsetof(struct uc_slot, key) + sizeof(struct uc_key))

/* Copies the frame's flow to a place that this CPU owns, and its annex to another; UC_NO_PLACE: it
 * has none. Nobody else reads them before the slot has its key. Returns 0 if the frame is too
 * short. */
static __always_inline int uc_copy_in(struct __sk_buff *skb, struct uc_slot *slot,
				      __u32 annex_place)
{
	struct uc_annex *annex = uc_annex_at(annex_place);

	if (bpf_skb_load_bytes(skb, UC_SLOT_AT + UC_AFTER_KEY, (__u8 *)slot + UC_AFTER_KEY,
			       sizeof(*slot) - UC_AFTER_KEY))
		return 0;
	if (!annex)
		return 1;
	slot->flow.annex_at = annex_place;
	return !bpf_skb_load_bytes(skb, UC_ANNEX_AT, annex, sizeof(*annex));
}

/* Writes the frame's flow to places that this CPU owns, and lists it. Returns 0 if that is
 * impossible; the places are still the caller's. */
static __always_inline int uc_write_over(struct __sk_buff *skb, const struct uc_key *key,
					 __u16 generation, __u32 place, __u32 annex_place)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &place);

	if (!slot || !uc_copy_in(skb, slot, annex_place))
		return 0;
	bpf_spin_lock(&slot->lock);
	slot->generation = generation;
	slot->looked = 0;
	slot->key = *key;
	bpf_spin_unlock(&slot->lock);
	/* a CPU may have joined an earlier flow at this place while another removed it */
	uc_forget_member(place);
	return uc_show(skb, slot, key, uc_hash_of(key), place);
}

/* Takes a place, and another one if the flow is `annexed`, and writes the frame's flow there.
 * Returns 0 if that is impossible; the places are free again. */
static __always_inline int uc_place_over(struct __sk_buff *skb, const struct uc_key *key,
					 __u16 generation, __u8 annexed)
{
	__u32 place = uc_take_place(skb), annex_place = UC_NO_PLACE;

	if (place == UC_NO_PLACE)
		return 0;
	if (annexed)
		annex_place = uc_take_place(skb);
	if ((!annexed || annex_place != UC_NO_PLACE) &&
	    uc_write_over(skb, key, generation, place, annex_place))
		return 1;
	uc_vacate(annex_place);
	uc_vacate(place);
	return 0;
}

/* Enters the frame's flow. skb->mark: maximum number of the port's settled flows; 0: the default
 * quota. Returns UC_TRANSLATED, UC_QUOTA_FULL, UC_TABLE_FULL (the table is full, or has the flow),
 * UC_NO_POLICY (no such port) or UC_NOT_TCP (the frame is too short). */
SEC("tc")
int uc_enter_flow(struct __sk_buff *skb)
{
	struct uc_key key UC_KEY_ALIGNED;
	struct uc_port_state *state;
	__u16 generation;
	__u8 bits;

	if (bpf_skb_load_bytes(skb, UC_SLOT_AT + __builtin_offsetof(struct uc_slot, key), &key,
			       sizeof(key)) ||
	    bpf_skb_load_bytes(skb, UC_SLOT_AT + __builtin_offsetof(struct uc_slot, generation),
			       &generation, sizeof(generation)) ||
	    bpf_skb_load_bytes(skb, UC_SLOT_AT + __builtin_offsetof(struct uc_slot, bits), &bits,
			       sizeof(bits)))
		return UC_NOT_TCP;
	state = bpf_map_lookup_elem(&ports, &key.ifindex);
	if (!state)
		return UC_NO_POLICY;
	if (!uc_admit(state, uc_quota(skb->mark, !!(bits & UC_SLOT_ANNEXED))))
		return UC_QUOTA_FULL;
	if (!(bits & UC_SLOT_HALF_OPEN))
		uc_settle(&key.ifindex);
	if (uc_place_over(skb, &key, generation, bits & UC_SLOT_ANNEXED))
		return UC_TRANSLATED;
	uc_release(&key.ifindex, bits & UC_SLOT_HALF_OPEN, 0);
	return UC_TABLE_FULL;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
