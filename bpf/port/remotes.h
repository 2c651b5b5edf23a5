/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is remembered of remote addresses that harm flows with ECN, or agree to it
 * (core/distrust.h). Each port has a few entries of its own, of which an address may have one of
 * two: no tenant displaces another's. If two addresses need the same entry, one that harms
 * displaces one that agrees.
 */
#ifndef UC_REMOTES_H
#define UC_REMOTES_H

#include "pending.h"
#include "../../core/distrust.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, (UC_NUMBER_PAST + 1) * UC_REMOTES_KEPT);
	__type(key, __u32);
	__type(value, struct uc_remote_slot);
} remotes SEC(".maps");

/* Returns one of the two entries that the remote address in `pending` may have; NULL: its port has
 * none. */
static __always_inline struct uc_remote_slot *uc_remote_slot_of(const struct uc_pending *now,
								__u32 other)
{
	__u32 number = uc_number_of(&now->key.ifindex), mixed = 0, index;
	const __u32 *words = (const __u32 *)now->key.remote;

	for (int i = 0; i < 4; i++)
		mixed = (mixed ^ words[i]) * 0x9e3779b1U;
	index = number * UC_REMOTES_KEPT + ((mixed >> 16) % UC_REMOTES_KEPT ^ other);
	return number == UC_NUMBER_NONE ? NULL : bpf_map_lookup_elem(&remotes, &index);
}

/* Returns whether an entry is about the remote address of a key. */
static __always_inline __u8 uc_is_remote(const struct uc_remote_slot *slot,
					 const struct uc_key *key)
{
	const __u32 *address = (const __u32 *)key->remote;

	return !((slot->vlan ^ key->vlan) | (slot->address[0] ^ address[0]) |
		 (slot->address[1] ^ address[1]) | (slot->address[2] ^ address[2]) |
		 (slot->address[3] ^ address[3]));
}

/* Returns whether flows with the remote address in `pending` must do without ECN. A global
 * function, for the verifier (see uc_find_rule()). */
__attribute__((noinline)) int uc_is_remote_distrusted(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	__u8 distrusted = 0;

	if (!skb || !now)
		return 0;
	for (__u32 other = 0; other < 2; other++) {
		struct uc_remote_slot *slot = uc_remote_slot_of(now, other);

		if (!slot)
			return 0;
		bpf_spin_lock(&slot->lock);
		distrusted |= uc_is_remote(slot, &now->key) &&
			      uc_is_distrusted(&slot->remote, now->now_ns);
		bpf_spin_unlock(&slot->lock);
	}
	return distrusted;
}

/* Which entry an address takes: the higher value. UC_WORTH_ITSELF: the entry has this address
 * already. UC_WORTH_NOTHING: it has expired. */
enum uc_remote_worth { UC_WORTH_KEEPING, UC_WORTH_LESS, UC_WORTH_NOTHING, UC_WORTH_ITSELF };

/* Returns how well an entry suits the address in `pending`, as enum uc_remote_worth. */
static __always_inline __u32 uc_rate_remote(struct uc_remote_slot *slot,
					    const struct uc_pending *now)
{
	__u32 worth = UC_WORTH_KEEPING;

	bpf_spin_lock(&slot->lock);
	if (uc_is_remote(slot, &now->key))
		worth = UC_WORTH_ITSELF;
	else if (!uc_remembers(&slot->remote, now->now_ns))
		worth = UC_WORTH_NOTHING;
	else if (slot->remote.news == UC_REMOTE_AGREED)
		worth = UC_WORTH_LESS;
	bpf_spin_unlock(&slot->lock);
	return worth;
}

/* Remembers what the flow in `pending` has shown of its remote address. A global function, for the
 * verifier. */
__attribute__((noinline)) int uc_remember_remote(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_remote_slot *one, *other;
	__u32 worth, others;

	if (!skb || !now)
		return 0;
	one = uc_remote_slot_of(now, 0);
	other = uc_remote_slot_of(now, 1);
	if (!one || !other)
		return 0;
	worth = uc_rate_remote(one, now);
	others = uc_rate_remote(other, now);
	if (others > worth) {
		one = other;
		worth = others;
	}
	if (worth < UC_WORTH_NOTHING && now->facts.remote <= UC_REMOTE_CLEARED)
		return 0;
	bpf_spin_lock(&one->lock);
	if (!uc_is_remote(one, &now->key)) {
		__builtin_memcpy(one->address, now->key.remote, sizeof(one->address));
		one->vlan = now->key.vlan;
		one->remote.news = UC_REMOTE_NOTHING;
	}
	uc_remember(&one->remote, now->facts.remote, now->now_ns);
	bpf_spin_unlock(&one->lock);
	return 1;
}

#endif
