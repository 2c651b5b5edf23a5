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
 *   are on a stack. If none is free, it searches the next few for a stale flow, then for a
 *   half-open one as well, which gives up its place. A flow that is neither keeps its own,
 *   whatever others do.
 */
#ifndef UC_TABLE_H
#define UC_TABLE_H

#include "pending.h"

/* How many vacant places a new flow tries: another CPU may be faster. */
#define UC_VACANT_TRIED 2

/* How many places a new flow searches before it is passed as TABLE_FULL; from the second number on
 * it takes the place of a half-open flow, too. */
#define UC_PLACES_TRIED       8
#define UC_PLACES_TRIED_FIRST 4

/* A port displaces no half-open flow while it has at most one for so many free places. */
#define UC_HALF_OPEN_SPARE 16

/* The shortest time between two searches of a port for stale flows: it bounds the cost of SYNs. */
#define UC_SWEEP_NS 10000000

/* What removing a flow needs of its slot. */
struct uc_removed {
	__u32 place;
	__u8 half_open;
};

/* Marks the flow as removed, under its lock. From then on no CPU finds it, and only this one
 * deletes it: with uc_forget(). */
static __always_inline struct uc_removed uc_remove(struct uc_slot *slot)
{
	struct uc_removed removed = {.place = slot->place, .half_open = slot->half_open};

	slot->tag = 0;
	return removed;
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
	__u8 settled = slot->half_open && !uc_is_half_open(&slot->flow);

	slot->half_open &= !settled;
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

static __always_inline int uc_is_same_key(const struct uc_key *a, const struct uc_key *b)
{
	const __u32 *one = (const __u32 *)a, *other = (const __u32 *)b;
	__u32 differs = 0;

	for (unsigned int i = 0; i < UC_KEY_WORDS; i++)
		differs |= one[i] ^ other[i];
	return !differs;
}

/* Gives a place that `held` has, or had last, to `key`; NULL: to nobody. `index`: of the place.
 * Returns 0 if another CPU was faster. */
static __always_inline int uc_hand_over(struct uc_place *place, __u32 index,
					const struct uc_key *held, const struct uc_key *key)
{
	struct uc_cursor *cursor = uc_only_entry(&cursors);
	int is_theirs;

	bpf_spin_lock(&place->lock);
	is_theirs = held->ifindex ? uc_is_same_key(&place->key, held) : !place->key.ifindex;
	if (is_theirs && key)
		place->key = *key;
	else if (is_theirs)
		place->key.ifindex = 0;
	bpf_spin_unlock(&place->lock);
	if (is_theirs && cursor && key && !held->ifindex)
		__sync_fetch_and_add(&cursor->used, 1);
	if (is_theirs && cursor && !key && held->ifindex) {
		__sync_fetch_and_add(&cursor->used, -1);
		bpf_map_push_elem(&vacant, &index, BPF_ANY);
	}
	return is_theirs;
}

/* Frees a place of a flow that is gone. */
static __always_inline void uc_vacate(__u32 index, const struct uc_key *held)
{
	struct uc_place *place = bpf_map_lookup_elem(&places, &index);

	if (place)
		uc_hand_over(place, index, held, NULL);
}

/* Deletes a flow that this CPU has marked as removed, and frees its place. */
static __always_inline void uc_forget(const struct uc_key *key, const struct uc_removed *removed)
{
	bpf_map_delete_elem(&flows, key);
	uc_release(&key->ifindex, removed->half_open, 0);
	uc_vacate(removed->place, key);
}

/* Removes the flow that has a place, if it is stale, or half-open and those are to go, too. Returns
 * 1 if the place may be handed over. */
static __always_inline int uc_give_up(const struct uc_key *held, __u32 index, __u64 now_ns,
				      __u8 half_open_too)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, held);
	__u8 stale, goes, half_open;

	if (!uc_lock_slot(slot, uc_tag_of(held)))
		return 1;
	if (slot->place != index) {
		bpf_spin_unlock(&slot->lock);
		return 1;
	}
	stale = uc_is_stale(&slot->flow, now_ns);
	goes = stale || (half_open_too && uc_is_half_open(&slot->flow));
	half_open = slot->half_open;
	if (goes)
		slot->tag = 0;
	bpf_spin_unlock(&slot->lock);
	if (!goes)
		return 0;
	bpf_map_delete_elem(&flows, held);
	uc_release(&held->ifindex, half_open, !stale);
	return 1;
}

/* Reads who has a place, or had it last. */
static __always_inline void uc_read_place(struct uc_place *place, struct uc_key *held)
{
	bpf_spin_lock(&place->lock);
	*held = place->key;
	bpf_spin_unlock(&place->lock);
}

/* Returns how many places are free. */
static __always_inline __u32 uc_free_places(const struct uc_cursor *cursor)
{
	return cursor->used < cursor->places ? cursor->places - cursor->used : 0;
}

/* Returns the place that is next in turn, and sets its index and who has it, or had it last; NULL
 * if the table has no places. */
static __always_inline struct uc_place *uc_next_place(__u32 *index, struct uc_key *held)
{
	struct uc_cursor *cursor = uc_only_entry(&cursors);
	struct uc_place *place;

	if (!cursor || !cursor->places)
		return NULL;
	*index = cursor->next++ % cursor->places;
	place = bpf_map_lookup_elem(&places, index);
	if (place)
		uc_read_place(place, held);
	return place;
}

/*
 * Tries to take the next place for the key in `pending`, from a half-open flow if those are to go,
 * too. Returns 1 and stores the place's index in `pending`, or 0 if the flow there stays. A global
 * function, for the verifier (see uc_join_group()).
 */
__attribute__((noinline)) int uc_try_place(struct __sk_buff *skb, int half_open_too)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_key held = {};
	struct uc_place *place;
	__u32 index = 0;

	/* `skb` is unused, but a global function needs it as an argument */
	if (!skb || !now)
		return 0;
	place = uc_next_place(&index, &held);
	if (!place)
		return 0;
	if (held.ifindex && !uc_give_up(&held, index, now->now_ns, !!half_open_too))
		return 0;
	if (!uc_hand_over(place, index, &held, &now->key))
		return 0;
	now->place = index;
	return 1;
}

/* Removes the flow that has the next place, if it is stale. Returns 1 if it did. A global function,
 * for the verifier. */
__attribute__((noinline)) int uc_collect_place(struct __sk_buff *skb)
{
	struct uc_key held = {};
	struct uc_place *place;
	__u32 index = 0;

	if (!skb)
		return 0;
	place = uc_next_place(&index, &held);
	return place && held.ifindex && uc_give_up(&held, index, bpf_ktime_get_ns(), 0) &&
	       uc_hand_over(place, index, &held, NULL);
}

/* Takes a place that a flow has left, or that none ever had, for the key in `pending`. Returns 1
 * and stores the place's index in `pending`, or 0. A global function, for the verifier. */
__attribute__((noinline)) int uc_take_vacant(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_cursor *cursor = uc_only_entry(&cursors);
	const struct uc_key nobody = {};
	struct uc_place *place;
	__u32 index = 0;

	if (!skb || !now || !cursor)
		return 0;
	if (bpf_map_pop_elem(&vacant, &index)) {
		if (cursor->fresh >= cursor->places)
			return 0;
		index = cursor->fresh++;
	}
	place = bpf_map_lookup_elem(&places, &index);
	if (!place || !uc_hand_over(place, index, &nobody, &now->key))
		return 0;
	now->place = index;
	return 1;
}

/* Takes a place for the key in `pending`, and stores its index there; removes a stale flow if the
 * next place has one. Returns 0 if no place is to be had. */
static __always_inline int uc_take_place(struct __sk_buff *skb)
{
	uc_collect_place(skb);
	for (int i = 0; i < UC_VACANT_TRIED; i++) {
		if (uc_take_vacant(skb))
			return 1;
	}
	for (int i = 0; i < UC_PLACES_TRIED; i++) {
		if (uc_try_place(skb, i >= UC_PLACES_TRIED_FIRST))
			return 1;
	}
	return 0;
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

/*
 * Takes a turn in the port's ring of half-open flows for the key in `pending`, and a place: that of
 * the flow whose turn it was, if it is to be displaced, or a free one. Returns 0 if there is none.
 * The place's index is then in `pending`. A global function, for the verifier.
 */
__attribute__((noinline)) int uc_take_turn(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_cursor *cursor = uc_only_entry(&cursors);
	struct uc_port_state *state;
	struct uc_place *place;
	struct uc_turn *turn;
	struct uc_key held = {};
	__u32 index;

	if (!skb || !now || !cursor)
		return 0;
	state = bpf_map_lookup_elem(&ports, &now->key.ifindex);
	if (!state)
		return 0;
	index = uc_next_turn(cursor, state, now->segment.flags & UC_ACK ? 1 : 0);
	turn = bpf_map_lookup_elem(&turns, &index);
	if (!turn)
		return uc_take_place(skb);
	index = turn->place - 1;
	place = bpf_map_lookup_elem(&places, &index);
	if (place)
		uc_read_place(place, &held);
	if (state->half_open > uc_free_places(cursor) / UC_HALF_OPEN_SPARE && place &&
	    held.ifindex == now->key.ifindex && uc_tag_of(&held) == turn->tag &&
	    uc_give_up(&held, index, now->now_ns, 1) &&
	    uc_hand_over(place, index, &held, &now->key))
		now->place = index;
	else if (!uc_take_place(skb))
		return 0;
	turn->place = now->place + 1;
	turn->tag = now->tag;
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
 * default. */
static __always_inline __u32 uc_quota(__u32 flows_max)
{
	const struct uc_cursor *cursor = uc_only_entry(&cursors);

	return flows_max || !cursor ? flows_max : uc_free_places(cursor);
}

/* Admits a half-open flow of the port, and takes a place for the key in `pending`. Returns
 * UC_TRANSLATED, or why there is no room. */
static __always_inline enum uc_reason uc_make_room(struct __sk_buff *skb, struct uc_pending *now,
						   struct uc_port_state *state, __u32 flows_max)
{
	if (!uc_admit(state, uc_quota(flows_max))) {
		if (now->now_ns - state->swept_ns < UC_SWEEP_NS)
			return UC_QUOTA_FULL;
		state->swept_ns = now->now_ns;
		uc_collect(skb);
		if (!uc_admit(state, uc_quota(flows_max)))
			return UC_QUOTA_FULL;
	}
	if (uc_take_turn(skb))
		return UC_TRANSLATED;
	uc_release(&now->key.ifindex, 1, 0);
	return UC_TABLE_FULL;
}

#endif
