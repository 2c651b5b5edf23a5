/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Places of the flow table, and their owners. A place is an index into the map `flows`, and the
 * entry there. It has one owner at each moment: the stack of free ones, the flow that its slot
 * shows or whose annex it has, or the CPU that took it from the stack or that removed its flow.
 *
 * A flow is removed by whoever sets its key's ifindex to 0, under the slot's lock: from then on no
 * CPU finds it, also none that has a pointer to the slot. The same CPU then removes the flow's
 * entry in `buckets`, and frees the places last. Before a flow has its entry (UC_SLOT_LISTED), only
 * the CPU that enters it can remove it.
 *
 * A new flow finds a free place if there is one, wherever it is: the places that flows have left
 * are on a stack, and those that were never taken begin at `fresh`. If none is free, it searches
 * the next few for a stale flow, then for a half-open one as well, which gives up its place. A flow
 * that is neither keeps its own, whatever others do.
 */
#ifndef UC_PLACES_H
#define UC_PLACES_H

#include "groups.h"
#include "pending.h"
#include "quota.h"

/* Number of entries of `flows` that a new flow tries before it is passed as TABLE_FULL. After the
 * first UC_PLACES_TRIED_FIRST entries it displaces half-open flows, too. */
#define UC_PLACES_TRIED       8
#define UC_PLACES_TRIED_FIRST 4

/* Frees the entry of `flows` at the index `place`, which this CPU owns; UC_NO_PLACE: does
 * nothing. */
static __always_inline void uc_vacate(__u32 place)
{
	struct uc_cursor *cursor = uc_only_entry(&cursors);

	if (!cursor || place == UC_NO_PLACE)
		return;
	__sync_fetch_and_add(&cursor->used, -1);
	bpf_map_push_elem(&vacant, &place, BPF_ANY);
}

/* Marks the flow in `pending` as removed, under its lock. The caller then calls uc_forget(), with
 * what this returns: the bits of the slot. */
static __always_inline __u8 uc_remove(struct uc_slot *slot, struct uc_pending *now)
{
	now->annex = slot->bits & UC_SLOT_ANNEXED ? slot->flow.annex_at : UC_NO_PLACE;
	slot->key.ifindex = 0;
	return slot->bits;
}

/* Deletes the flow in `pending`, which this CPU has marked as removed, and frees its place. `bits`:
 * of its slot. */
static __always_inline void uc_forget(struct __sk_buff *skb, struct uc_pending *now, __u8 bits)
{
	uc_unlist(skb, now->hash, now->place);
	uc_release(&now->key.ifindex, bits & UC_SLOT_HALF_OPEN, 0);
	if (bits & UC_SLOT_ANNEXED)
		uc_forget_member(now->place);
	uc_vacate(now->annex);
	uc_vacate(now->place);
	now->place = UC_NO_PLACE;
}

/* Finds the flow with the key in `pending`, and stores its place there: UC_NO_PLACE if it is
 * unknown. A global function, for the verifier. */
__attribute__((noinline)) int uc_find_pending(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_slot *slot;

	if (!skb || !now)
		return 0;
	now->place = uc_place_of(&now->key, now->hash);
	slot = bpf_map_lookup_elem(&flows, &now->place);
	if (uc_lock_slot(slot, &now->key))
		bpf_spin_unlock(&slot->lock);
	else
		now->place = UC_NO_PLACE;
	return 1;
}

/* Lists the flow that this CPU has written to a slot. Returns 0 if that is impossible; the slot has
 * no flow then. */
static __always_inline int uc_show(struct __sk_buff *skb, struct uc_slot *slot,
				   const struct uc_key *key, __u64 hash, __u32 place)
{
	int listed = uc_list(skb, hash, place);

	if (!uc_lock_slot(slot, key))
		return listed; /* not expected: nobody else removes a flow that is not listed */
	if (listed)
		slot->bits |= UC_SLOT_LISTED;
	else
		slot->key.ifindex = 0;
	bpf_spin_unlock(&slot->lock);
	return listed;
}

/* Writes the scratch slot and annex to the places in `pending`, which this CPU owns, and lists the
 * flow. Returns 0 if that is impossible; the places are still the caller's. A global function, for
 * the verifier. */
__attribute__((noinline)) int uc_write_in(struct __sk_buff *skb)
{
	const struct uc_scratch *from = uc_only_entry(&scratch);
	const struct uc_slot *fresh = (const struct uc_slot *)from;
	struct uc_pending *now = uc_pending_now();
	struct uc_annex *annex;
	struct uc_slot *slot;

	if (!skb || !fresh || !now)
		return 0;
	slot = bpf_map_lookup_elem(&flows, &now->place);
	if (!slot)
		return 0;
	annex = uc_annex_at(now->annex);
	if (annex)
		*annex = from->annex;
	bpf_spin_lock(&slot->lock);
	slot->generation = fresh->generation;
	slot->looked = 0;
	__builtin_memcpy(&slot->key, &fresh->key,
			 sizeof(*slot) - __builtin_offsetof(struct uc_slot, key));
	bpf_spin_unlock(&slot->lock);
	return uc_show(skb, slot, &now->key, now->hash, now->place);
}

/*
 * Removes the flow at `place` if it is stale, if user space has asked to forget it, or if it is
 * half-open and `half_open_too` is set; but only if its key's hash has the tag `tag` (0: any).
 * Returns 1 if it removed the flow: then this CPU owns the place. A global function, for the
 * verifier.
 */
__attribute__((noinline)) int uc_give_up(struct __sk_buff *skb, __u32 place, __u32 half_open_too,
					 __u32 tag)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &place);
	const struct uc_secret *secret = uc_only_entry(&secrets);
	const struct uc_port_state *state;
	__u64 now_ns, forget_ns, hash;
	__u8 stale, goes, bits;
	struct uc_key key UC_KEY_ALIGNED;
	__u32 annex_place;

	if (!skb || !slot || !secret)
		return 0;
	/* before the lock, which leaves the hash less room on the stack */
	key = slot->key;
	barrier();
	if (!key.ifindex)
		return 0;
	hash = uc_hash_by(secret, &key);
	if (tag && tag != uc_tag(hash))
		return 0;
	now_ns = bpf_ktime_get_ns();
	state = bpf_map_lookup_elem(&ports, &key.ifindex);
	forget_ns = state ? state->forget_ns : now_ns;
	bpf_spin_lock(&slot->lock);
	bits = slot->bits;
	annex_place = uc_annex_place(slot, place);
	stale = uc_is_stale(&slot->flow, now_ns) || slot->flow.seen_ns <= forget_ns;
	goes = (stale || (half_open_too && uc_is_half_open(&slot->flow))) &&
	       bits & UC_SLOT_LISTED && uc_is_same_key(&slot->key, &key);
	if (goes)
		slot->key.ifindex = 0;
	bpf_spin_unlock(&slot->lock);
	if (!goes)
		return 0;
	uc_unlist(skb, hash, place);
	uc_release(&key.ifindex, bits & UC_SLOT_HALF_OPEN, !stale);
	if (annex_place != place) {
		uc_forget_member(place);
		uc_vacate(annex_place);
	}
	return 1;
}

/* Returns the index in `flows` that is to be checked next for a stale flow, of those ever used;
 * UC_NO_PLACE: none was used. */
static __always_inline __u32 uc_next_place(void)
{
	struct uc_cursor *cursor = uc_only_entry(&cursors);

	if (!cursor || !cursor->fresh)
		return UC_NO_PLACE;
	return cursor->next++ % cursor->fresh;
}

/* Removes the flow at the index that uc_next_place() returns, if it is stale. Returns 1 if it did.
 * A global function, which the verifier checks once on its own. */
__attribute__((noinline)) int uc_collect_place(struct __sk_buff *skb)
{
	__u32 place = uc_next_place();

	if (!skb || !uc_give_up(skb, place, 0, 0))
		return 0;
	uc_vacate(place);
	return 1;
}

/* Removes stale flows from the next UC_PLACES_SWEPT entries of `flows`. Returns how many it
 * removed. */
static __always_inline int uc_collect(struct __sk_buff *skb)
{
	int collected = 0;

	for (int i = 0; i < UC_PLACES_SWEPT; i++)
		collected += uc_collect_place(skb);
	return collected;
}

/* Takes a free entry of `flows`: one that a flow has left, or one never used. Returns its index;
 * UC_NO_PLACE: no entry is free. */
static __always_inline __u32 uc_take_vacant(void)
{
	struct uc_cursor *cursor = uc_only_entry(&cursors);
	__u32 place = UC_NO_PLACE;

	if (!cursor)
		return UC_NO_PLACE;
	if (bpf_map_pop_elem(&vacant, &place)) {
		bpf_spin_lock(&cursor->lock);
		place = cursor->fresh;
		cursor->fresh += place < cursor->places;
		bpf_spin_unlock(&cursor->lock);
		if (place >= cursor->places)
			return UC_NO_PLACE;
	}
	__sync_fetch_and_add(&cursor->used, 1);
	return place;
}

/* Takes an entry of `flows`: a free one, or that of a stale or half-open flow, which it removes.
 * Returns the entry's index; UC_NO_PLACE: there is none. */
static __always_inline __u32 uc_take_place(struct __sk_buff *skb)
{
	__u32 place = uc_take_vacant();

	for (__u32 i = 0; i < UC_PLACES_TRIED && place == UC_NO_PLACE; i++) {
		__u32 next = uc_next_place();

		if (uc_give_up(skb, next, i >= UC_PLACES_TRIED_FIRST, 0))
			place = next;
	}
	return place;
}

/* Takes a place for an annex, and stores it in `pending`. Returns 0 if there is none. A global
 * function, for the verifier. */
__attribute__((noinline)) int uc_take_annex(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();

	if (!skb || !now)
		return 0;
	now->annex = uc_take_place(skb);
	return now->annex != UC_NO_PLACE;
}

#endif
