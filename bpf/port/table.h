/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The flow table under pressure. A flow that a stranger or a guest opens without an answer of the
 * other end stays half-open (quota.h), so a port keeps a ring of the half-open flows that it opened
 * last. All rings together have a quarter of the table, in equal parts for all ports, and each part
 * has a half for the guest's SYNs and one for the peers'. While a port has more half-open flows
 * than a sixteenth of the free places, each new one displaces the oldest one in its ring. Half-open
 * flows of two places can have half of the table.
 */
#ifndef UC_TABLE_H
#define UC_TABLE_H

#include "places.h"

/* If fewer than this many entries of `flows` are free for each half-open flow of a port, a new flow
 * of the port displaces the port's oldest half-open flow. */
#define UC_HALF_OPEN_SPARE 16

/* The shortest time between two searches of a port for stale flows: it bounds the cost of SYNs. */
#define UC_SWEEP_NS 10000000

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

/* Returns whether the flow at the index `place` of `flows` belongs to this port. */
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

/* Takes a place for the annex of a flow that the port has already, and empties it. The place is
 * then in `pending`; UC_NO_PLACE: there is none. By the default quota a port gets one if its
 * settled flows are at most half as many as the free places. A global function, for the verifier.
 */
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
