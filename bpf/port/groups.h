/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flows that share windows: the groups of a host, their guests and their members. A group is
 * identified by the destination prefix of its flows and by the number that the operator gave their
 * port.
 *
 * Groups and guests are stored in arrays. The hash of a key selects a few entries, of which a new
 * key takes the first that nobody has used for a while. So entries aren't counted, deleted or
 * collected, and if the table is full a new flow stays uncoupled. A member that finds another key
 * in its entry has lost it, and looks for an entry again.
 */
#ifndef UC_GROUPS_H
#define UC_GROUPS_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../core/coupling.h"
#include "layout.h"

/* Table sizes, powers of two. A tenant's number (of guests: a port) can use only a fixed-size range
 * of the table, whose begin depends on the number. So a tenant that opens groups without end leaves
 * the other tenants most of theirs (invariant "own state"). */
#define UC_GROUPS_MAX       4096U
#define UC_GROUPS_OF_NUMBER 1024U
#define UC_GUESTS_MAX       8192U
#define UC_GUESTS_OF_PORT   1024U
/* How many entries a key may use. */
#define UC_PLACES_OF_KEY 8
/* How long a group must be unused before another may take its entry; by then its window is
 * outdated. */
#define UC_GROUP_IDLE_NS 10000000000ULL
/* After so many failed attempts to join, one at each ACK, a flow stays uncoupled. */
#define UC_REFUSALS_MAX 16

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct uc_port_coupling);
} couplings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct uc_priority_key);
	__type(value, __u32);
} priorities SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UC_GROUPS_MAX);
	__type(key, __u32);
	__type(value, struct uc_group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UC_GUESTS_MAX);
	__type(key, __u32);
	__type(value, struct uc_group_guest);
} guests SEC(".maps");

/* Members, keyed by their flow's index in `flows`. At most half as many as `flows` has entries,
 * since a flow that shares windows takes two. Other flows have no member. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct uc_member);
} members SEC(".maps");

/* Removes the member at a place, if there is one: its flow is removed, or begins again. */
static __always_inline void uc_forget_member(__u32 place)
{
	bpf_map_delete_elem(&members, &place);
}

/* Returns the first `bits` bits of a big-endian word; 0 or less: none. */
static __always_inline __be32 uc_prefix_of(__be32 word, __s32 bits)
{
	if (bits >= 32)
		return word;
	return bits <= 0 ? 0 : word & bpf_htonl(~0U << (32 - bits));
}

/* Makes the key of the flow's group. */
static __always_inline void uc_name_group(const struct uc_port_coupling *policy,
					  const struct uc_key *flow, struct uc_group_key *key)
{
	__u8 mapped;
	__s32 bits;

	__builtin_memcpy(key->remote, flow->remote, sizeof(key->remote));
	key->group = policy->group;
	key->vlan = flow->vlan;
	mapped = !key->remote[0] && !key->remote[1] && key->remote[2] == bpf_htonl(0xffff);
	bits = uc_ccc_prefix_bits(mapped, policy->prefix4, policy->prefix6);
	key->remote[0] = uc_prefix_of(key->remote[0], bits);
	key->remote[1] = uc_prefix_of(key->remote[1], bits - 32);
	key->remote[2] = uc_prefix_of(key->remote[2], bits - 64);
	key->remote[3] = uc_prefix_of(key->remote[3], bits - 96);
}

static __always_inline int uc_is_same_group(const struct uc_group_key *a,
					    const struct uc_group_key *b)
{
	return !((a->group ^ b->group) | (a->remote[0] ^ b->remote[0]) |
		 (a->remote[1] ^ b->remote[1]) | (a->remote[2] ^ b->remote[2]) |
		 (a->remote[3] ^ b->remote[3]) | (a->vlan ^ b->vlan));
}

/* Returns a hash of a group's key and an ifindex (Fibonacci hashing of one word after the other).
 */
static __always_inline __u32 uc_hash(const struct uc_group_key *key, __u32 ifindex)
{
	const __u64 golden = 0x9e3779b97f4a7c15ULL;
	__u64 hash = ((__u64)key->group << 32 | ifindex) * golden;

	hash = (hash ^ hash >> 32 ^ key->remote[0]) * golden;
	hash = (hash ^ hash >> 32 ^ key->remote[1]) * golden;
	hash = (hash ^ hash >> 32 ^ key->remote[2]) * golden;
	hash = (hash ^ hash >> 32 ^ key->remote[3]) * golden;
	hash = (hash ^ hash >> 32 ^ key->vlan) * golden;
	return hash >> 32;
}

/* Returns where a number's range begins in a table of `places` entries. Ranges of consecutive
 * numbers begin far from each other (Fibonacci hashing). */
static __always_inline __u32 uc_stretch(__u32 number, __u32 places)
{
	return (__u64)(number * 0x9e3779b9U) * places >> 32;
}

/* Returns whether an entry may be taken: it was never used, or not for UC_GROUP_IDLE_NS. */
static __always_inline int uc_is_unused(__u64 used_ns, __u64 now_ns)
{
	return !used_ns || now_ns > used_ns + UC_GROUP_IDLE_NS;
}

/* Finds the group's entry, or takes a free one. Returns 0 if there is none. */
static __always_inline int uc_find_group(const struct uc_group_key *key,
					 const struct uc_ccc_policy *rules, __u64 now_ns,
					 __u32 *index)
{
	__u32 first = uc_hash(key, 0), found = UC_GROUPS_MAX;
	__u32 begin = uc_stretch(key->group, UC_GROUPS_MAX);
	struct uc_group *group;
	int taken;

	for (int i = 0; i < UC_PLACES_OF_KEY; i++) {
		__u32 at = (begin + (first + i) % UC_GROUPS_OF_NUMBER) % UC_GROUPS_MAX;

		group = bpf_map_lookup_elem(&groups, &at);
		if (!group)
			return 0;
		if (group->used_ns && uc_is_same_group(&group->key, key)) {
			*index = at;
			return 1;
		}
		if (found == UC_GROUPS_MAX && uc_is_unused(group->used_ns, now_ns))
			found = at;
	}
	group = bpf_map_lookup_elem(&groups, &found);
	if (!group)
		return 0;
	bpf_spin_lock(&group->lock);
	if (uc_is_unused(group->used_ns, now_ns)) {
		group->key = *key;
		group->used_ns = now_ns;
		uc_ccc_open(&group->ccc, rules, now_ns);
	}
	/* 0 if another CPU has taken it first */
	taken = uc_is_same_group(&group->key, key);
	bpf_spin_unlock(&group->lock);
	*index = found;
	return taken;
}

/* Finds the guest's entry in the group, or takes a free one. Returns 0 if the group has neither.
 */
static __always_inline int uc_find_guest(const struct uc_group_key *key, __u32 ifindex,
					 __u64 now_ns, __u32 *index)
{
	const struct uc_ccc_guest fresh = {};
	__u32 first = uc_hash(key, ifindex), found = UC_GUESTS_MAX;
	__u32 begin = uc_stretch(ifindex ^ key->group << 8, UC_GUESTS_MAX);
	struct uc_group_guest *guest;
	int taken;

	for (int i = 0; i < UC_PLACES_OF_KEY; i++) {
		__u32 at = (begin + (first + i) % UC_GUESTS_OF_PORT) % UC_GUESTS_MAX;

		guest = bpf_map_lookup_elem(&guests, &at);
		if (!guest)
			return 0;
		if (guest->used_ns && guest->ifindex == ifindex &&
		    uc_is_same_group(&guest->key, key)) {
			*index = at;
			return 1;
		}
		if (found == UC_GUESTS_MAX && uc_is_unused(guest->used_ns, now_ns))
			found = at;
	}
	guest = bpf_map_lookup_elem(&guests, &found);
	if (!guest)
		return 0;
	bpf_spin_lock(&guest->lock);
	if (uc_is_unused(guest->used_ns, now_ns)) {
		guest->key = *key;
		guest->ifindex = ifindex;
		guest->used_ns = now_ns;
		guest->ccc = fresh;
	}
	taken = guest->ifindex == ifindex && uc_is_same_group(&guest->key, key);
	bpf_spin_unlock(&guest->lock);
	*index = found;
	return taken;
}

/* Returns the priority that the operator gave to a TCP port; 0: none. */
static __always_inline __u32 uc_priority_at(__u32 ifindex, __be16 tcp_port)
{
	struct uc_priority_key key = {.ifindex = ifindex, .tcp_port = bpf_ntohs(tcp_port)};
	__u32 *priority = bpf_map_lookup_elem(&priorities, &key);

	return priority ? *priority : 0;
}

/*
 * Returns the weight of a flow among its guest's flows, 1 to 255: the priority of the guest's TCP
 * port, or of the remote one; otherwise that of the flow's rule, or policy's for all other flows.
 */
static __always_inline __u8 uc_weight_of(const struct uc_key *flow, __u8 share,
					 const struct uc_port_coupling *policy)
{
	__u32 weight = uc_priority_at(flow->ifindex, flow->guest_port);

	if (!weight)
		weight = uc_priority_at(flow->ifindex, flow->remote_port);
	if (!weight)
		weight = share ? share : policy->priority;
	return uc_min64(uc_max64(weight, 1), 255);
}

#endif
