/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How many flows a port may have. A flow is *half-open* until the peer has acknowledged the guest's
 * SYN or SYN-ACK (uc_is_half_open()), and *settled* from then on. Half-open flows have a quota of
 * their own (table.h). Settled ones are at most as many as the rule's `flows_max`, or by default as
 * many as the table has free places: a dynamic threshold (Choudhury and Hahne, 1998). So a port
 * alone gets half of the table, two busy ones a third each, and some of it stays free for others.
 * A new flow of two places needs twice as many free ones by default.
 */
#ifndef UC_QUOTA_H
#define UC_QUOTA_H

#include "maps.h"

/* Returns the number of free entries in the host's flow table. */
static __always_inline __u32 uc_free_places(const struct uc_cursor *cursor)
{
	return cursor->used < cursor->places ? cursor->places - cursor->used : 0;
}

/* Returns how many flows a port may have, half-open ones apart. `flows_max`: by its rule; 0: by
 * default, half as many if the new one takes two places (`annexed`). */
static __always_inline __u32 uc_quota(__u32 flows_max, __u8 annexed)
{
	const struct uc_cursor *cursor = uc_only_entry(&cursors);

	return flows_max || !cursor ? flows_max : uc_free_places(cursor) >> annexed;
}

/* Counts one more half-open flow of the port. Returns 0 if the port has `flows_max` settled ones.
 */
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

/* Counts one flow of the port less. `half_open`: it was half-open; `displaced`: 1 if it lost its
 * place to a newer one. */
static __always_inline void uc_release(const __u32 *ifindex, __u8 half_open, __u8 displaced)
{
	struct uc_port_state *state = bpf_map_lookup_elem(&ports, ifindex);

	if (!state)
		return;
	bpf_spin_lock(&state->lock);
	/* 0: the port was removed, and entered again, meanwhile */
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

/* Counts one half-open flow of the port less, since it is settled now. */
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

#endif
