/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The flow table under pressure: which flow gets a place, and which loses its own.
 *
 * A flow is *half-open* until the peer has acknowledged the guest's SYN or SYN-ACK
 * (uc_is_half_open()). What strangers and guests can make without a partner is half-open, so:
 *
 * - Half-open flows have a quota of their own. A port keeps a ring of those that it opened last:
 *   all rings together have a quarter of the table, in equal parts for all ports, and each part has
 *   a half for the guest's SYNs and one for the peers'. While a port has more half-open flows than
 *   a sixteenth of the free places, each new one displaces the oldest one in its ring.
 * - The other flows of a port are at most as many as its rule's `flows_max`, or by default as many
 *   as the table has free places: a dynamic threshold (Choudhury and Hahne, 1998). So a port alone
 *   gets half of the table, two busy ones a third each, and some of it stays free for others.
 * - A new flow finds a free place if there is one, wherever it is: the places that flows have left
 *   are on a stack, the others lie behind `fresh`. If none is free, it searches the next few for a
 * stale flow, then for a half-open one as well, which gives up its place. A flow that is neither
 * keeps its own, whatever others do.
 *
 * A flow with an annex takes two places, and counts twice in the default quota. Half-open ones of
 * such flows can have half of the table.
 *
 * A place has one owner at each moment: the stack, the flow that its slot shows or whose annex it
 * has, or the CPU that took it from the stack or that removed its flow. A flow is removed by
 * whoever sets its key's ifindex to 0, under the slot's lock: from then on no CPU finds it, also
 * none that has a pointer to the slot. The same CPU then removes the flow's entry in `buckets`, and
 * frees the places last.
 * Before a flow has its entry (UC_SLOT_LISTED), only the CPU that enters it can remove it.
 */
#ifndef UC_TABLE_H
#define UC_TABLE_H

#include "groups.h"
#include "pending.h"

/* How many places a new flow searches before it is passed as TABLE_FULL; from the second number on
 * it takes the place of a half-open flow, too. */
#define UC_PLACES_TRIED       8
#define UC_PLACES_TRIED_FIRST 4

/* A port displaces no half-open flow while it has at most one for so many free places. */
#define UC_HALF_OPEN_SPARE 16

/* The shortest time between two searches of a port for stale flows: it bounds the cost of SYNs. */
#define UC_SWEEP_NS 10000000

/* Marks the flow in `pending` as removed, under its lock. The caller then calls uc_forget(), with
 * what this returns: the bits of the slot. */
static __always_inline __u8 uc_remove(struct uc_slot *slot, struct uc_pending *now)
{
	now->annex = slot->bits & UC_SLOT_ANNEXED ? slot->flow.annex_at : UC_NO_PLACE;
	slot->key.ifindex = 0;
	return slot->bits;
}

/* Counts one more half-open flow of the port. Returns 0 if the port has `flows_max` others. */
static __always_inline int uc_admit(struct uc_port_state *state, __u32 flows_max)
{
	int admitted;

	bpf_spin_lock(&state->lock);
	admitted = state->flows - state->half_open < flows_max;
	if (admitted) {
		state->flows++;
		state->half_open++;
	}
	bpf_spin_unlock(&state->lock);
	return admitted;
}

/* Counts one flow of the port less. */
static __always_inline void uc_release(const __u32 *ifindex, __u8 half_open, __u8 displaced)
{
	struct uc_port_state *state = bpf_map_lookup_elem(&ports, ifindex);

	if (!state)
		return;
	bpf_spin_lock(&state->lock);
	/* 0: user space has removed all flows of the port meanwhile */
	if (state->flows)
		state->flows--;
	if (half_open && state->half_open)
		state->half_open--;
	state->displaced += displaced;
	bpf_spin_unlock(&state->lock);
}

/* Returns whether the flow has just ceased to be half-open; the caller then calls uc_settle() after
 * it has unlocked the slot. */
static __always_inline __u8 uc_has_settled(struct uc_slot *slot)
{
	__u8 settled = slot->bits & UC_SLOT_HALF_OPEN && !uc_is_half_open(&slot->flow);

	if (settled)
		slot->bits &= ~UC_SLOT_HALF_OPEN;
	return settled;
}

/* Counts a flow of the port that is half-open no more. */
static __always_inline void uc_settle(const __u32 *ifindex)
{
	struct uc_port_state *state = bpf_map_lookup_elem(&ports, ifindex);

	if (!state)
		return;
	bpf_spin_lock(&state->lock);
	if (state->half_open)
		state->half_open--;
	bpf_spin_unlock(&state->lock);
}

/* Frees a place that this CPU owns; UC_NO_PLACE: none. */
static __always_inline void uc_vacate(__u32 place)
{
	struct uc_cursor *cursor = uc_only_entry(&cursors);

	if (!cursor || place == UC_NO_PLACE)
		return;
	__sync_fetch_and_add(&cursor->used, -1);
	bpf_map_push_elem(&vacant, &place, BPF_ANY);
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

/* Writes the scratch slot and annex to the places in `pending`, which this CPU owns, and lists the
 * flow. Returns 0 if that is impossible; the places are still the caller's. A global function, for
 * the verifier. */
__attribute__((noinline)) int uc_settle_in(struct __sk_buff *skb)
{
	const struct uc_scratch *from = uc_only_entry(&scratch);
	const struct uc_slot *fresh = (const struct uc_slot *)from;
	struct uc_pending *now = uc_pending_now();
	struct uc_annex *annex;
	struct uc_slot *slot;
	int listed;

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
	listed = uc_list(skb, now->hash, now->place);
	if (!uc_lock_slot(slot, &now->key))
		return listed; /* found and removed by another CPU, which has freed the place */
	if (listed)
		slot->bits |= UC_SLOT_LISTED;
	else
		slot->key.ifindex = 0;
	bpf_spin_unlock(&slot->lock);
	return listed;
}

/*
 * Removes the flow that has a place, if it is stale, if user space has asked to forget it, or if it
 * is half-open and `half_open_too`. `tag`: of the key's hash; 0: any. Returns 1 if it did: the
 * place is the caller's then. A global function, for the verifier.
 */
__attribute__((noinline)) int uc_give_up(struct __sk_buff *skb, __u32 place, __u32 half_open_too,
					 __u32 tag)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &place);
	const struct uc_secret *secret = uc_only_entry(&secrets);
	const struct uc_port_state *state;
	__u64 now_ns, forget_ns, hash;
	__u8 stale, goes, bits;
	struct uc_key key;
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

/* Returns how many places are free. */
static __always_inline __u32 uc_free_places(const struct uc_cursor *cursor)
{
	return cursor->used < cursor->places ? cursor->places - cursor->used : 0;
}

/* Returns the place that is next in turn, of those that were ever taken; UC_NO_PLACE: none was. */
static __always_inline __u32 uc_next_place(void)
{
	struct uc_cursor *cursor = uc_only_entry(&cursors);

	if (!cursor || !cursor->fresh)
		return UC_NO_PLACE;
	return cursor->next++ % cursor->fresh;
}

/* Removes the flow that has the next place, if it is stale. Returns 1 if it did. A global function,
 * for the verifier. */
__attribute__((noinline)) int uc_collect_place(struct __sk_buff *skb)
{
	__u32 place = uc_next_place();

	if (!skb || !uc_give_up(skb, place, 0, 0))
		return 0;
	uc_vacate(place);
	return 1;
}

/* Takes a place that a flow has left, or that none ever had. Returns UC_NO_PLACE if there is none.
 */
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

/* Takes a place: a free one, or that of a stale flow, or of a half-open one. Returns UC_NO_PLACE if
 * there is none. */
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

/* Returns the index in `turns` of a port's next half-open flow, opened by peers if `by_peer`. */
static __always_inline __u32 uc_next_turn(struct uc_cursor *cursor, struct uc_port_state *state,
					  __u8 by_peer)
{
	__u32 all = cursor->places / UC_HALF_OPEN_PART | !(cursor->places / UC_HALF_OPEN_PART);
	__u32 part, turn;

	if (state->number > cursor->ports)
		cursor->ports = state->number;
	part = all / 2 / (cursor->ports | !cursor->ports);
	part |= !part;
	bpf_spin_lock(&state->lock);
	turn = by_peer ? state->turns[1]++ : state->turns[0]++;
	bpf_spin_unlock(&state->lock);
	/* the remainder is for tables with fewer places than ports */
	return (((state->number - 1) * 2 + by_peer) * part + turn % part) % all;
}

/* Returns whether the flow at a place is of this port. */
static __always_inline int uc_is_of_port(__u32 place, __u32 ifindex)
{
	const struct uc_slot *slot = bpf_map_lookup_elem(&flows, &place);

	return slot && slot->key.ifindex == ifindex;
}

/*
 * Takes a turn in the port's ring of half-open flows for the key in `pending`, and a place: that of
 * the flow whose turn it was, if it is to be displaced, or another. Returns 0 if there is none. The
 * place is then in `pending`. A global function, for the verifier.
 */
__attribute__((noinline)) int uc_take_turn(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_cursor *cursor = uc_only_entry(&cursors);
	struct uc_port_state *state;
	struct uc_turn *turn;
	__u32 index, place;

	if (!skb || !now || !cursor)
		return 0;
	state = bpf_map_lookup_elem(&ports, &now->key.ifindex);
	if (!state)
		return 0;
	index = uc_next_turn(cursor, state, now->segment.flags & UC_ACK ? 1 : 0);
	turn = bpf_map_lookup_elem(&turns, &index);
	if (!turn)
		return 0;
	place = turn->place - 1;
	if (state->half_open <= uc_free_places(cursor) / UC_HALF_OPEN_SPARE ||
	    !uc_is_of_port(place, now->key.ifindex) || !uc_give_up(skb, place, 1, turn->tag))
		place = uc_take_place(skb);
	if (place == UC_NO_PLACE)
		return 0;
	now->place = place;
	turn->place = place + 1;
	turn->tag = uc_tag(now->hash);
	return 1;
}

/* Removes stale flows from the next few places. Returns how many it removed. */
static __always_inline int uc_collect(struct __sk_buff *skb)
{
	int collected = 0;

	for (int i = 0; i < UC_PLACES_SWEPT; i++)
		collected += uc_collect_place(skb);
	return collected;
}

/* Returns how many flows a port may have, half-open ones apart. `flows_max`: by its rule; 0: by
 * default, half as many if the new one takes two places (`annexed`). */
static __always_inline __u32 uc_quota(__u32 flows_max, __u8 annexed)
{
	const struct uc_cursor *cursor = uc_only_entry(&cursors);

	return flows_max || !cursor ? flows_max : uc_free_places(cursor) >> annexed;
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

/* Takes a place for the annex of a flow that is counted already, as uc_take_annex(), and empties
 * it. A port whose rule leaves its quota to the table gets one if it could open such a flow. */
__attribute__((noinline)) int uc_take_next_annex(struct __sk_buff *skb, __u32 flows_max)
{
	struct uc_pending *now = uc_pending_now();
	const struct uc_port_state *state;
	struct uc_annex *annex;

	if (!skb || !now)
		return 0;
	now->annex = UC_NO_PLACE;
	state = bpf_map_lookup_elem(&ports, &now->key.ifindex);
	if (!state || (!flows_max && state->flows - state->half_open > uc_quota(0, 1)))
		return 0;
	now->annex = uc_take_place(skb);
	annex = uc_annex_at(now->annex);
	if (annex)
		__builtin_memset(annex, 0, sizeof(*annex));
	return 1;
}

/* Frees the places in `pending`, which this CPU owns, and counts one half-open flow less. */
static __always_inline void uc_give_back(struct uc_pending *now)
{
	uc_release(&now->key.ifindex, 1, 0);
	uc_vacate(now->annex);
	uc_vacate(now->place);
	now->place = UC_NO_PLACE;
}

/* Admits a half-open flow of the port, removes a stale flow if the next place has one, and takes a
 * place for the key in `pending`, and another one if it is `annexed`. Returns UC_TRANSLATED, or why
 * there is no room. */
static __always_inline enum uc_reason uc_make_room(struct __sk_buff *skb, struct uc_pending *now,
						   struct uc_port_state *state, __u32 flows_max,
						   __u8 annexed)
{
	now->place = UC_NO_PLACE;
	now->annex = UC_NO_PLACE;
	if (!uc_admit(state, uc_quota(flows_max, annexed))) {
		if (now->now_ns - state->swept_ns < UC_SWEEP_NS)
			return UC_QUOTA_FULL;
		state->swept_ns = now->now_ns;
		uc_collect(skb);
		if (!uc_admit(state, uc_quota(flows_max, annexed)))
			return UC_QUOTA_FULL;
	}
	uc_collect_place(skb);
	if (uc_take_turn(skb) && (!annexed || uc_take_annex(skb)))
		return UC_TRANSLATED;
	uc_give_back(now);
	return UC_TABLE_FULL;
}

#endif
