/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The groups and guests of one kernel. A connection's group is identified by its destination, its
 * guest by its network namespace: containers, or namespaces that represent virtual machines, share
 * a bottleneck by weight, whatever their numbers of connections.
 *
 * Both tables are bounded and nothing is evicted: if one is full, a new connection stays uncoupled.
 * An entry lasts from its first connection to its last.
 */
#ifndef UC_GUEST_GROUP_H
#define UC_GUEST_GROUP_H

#include "../bpf/lookup.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, UC_CTRL_GROUPS_MAX);
	__type(key, struct uc_ctrl_group_key);
	__type(value, struct uc_ctrl_group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, UC_CTRL_GUESTS_MAX);
	__type(key, struct uc_ctrl_guest_key);
	__type(value, struct uc_ctrl_guest);
} guests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, UC_CTRL_WEIGHTS_MAX);
	__type(key, struct uc_ctrl_weight_key);
	__type(value, __u32);
} weights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_ctrl_policy);
} policies SEC(".maps");

/* For each group the last answer of a host that couples guests. User space writes it, always the
 * whole value. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, UC_CTRL_GROUPS_MAX);
	__type(key, struct uc_ctrl_group_key);
	__type(value, struct uc_ccc_told);
} told SEC(".maps");

/* Zeros that initialize a new entry of groups or guests; they are too large for the stack. */
struct zeros {
	__u8 bytes[sizeof(struct uc_ctrl_group) > sizeof(struct uc_ctrl_guest)
			   ? sizeof(struct uc_ctrl_group)
			   : sizeof(struct uc_ctrl_guest)];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct zeros);
} nothing SEC(".maps");

static __always_inline struct uc_ctrl_policy *policy_now(void)
{
	return uc_only_entry(&policies);
}

/* Returns the group with this key, a new one if there is none; NULL if the table is full. */
static __always_inline struct uc_ctrl_group *find_group(const struct uc_ctrl_group_key *key)
{
	struct zeros *empty = uc_only_entry(&nothing);

	return empty ? uc_find_or_add(&groups, key, empty) : NULL;
}

/* Returns the guest with this key, a new one if there is none; NULL if the table is full. */
static __always_inline struct uc_ctrl_guest *find_guest(const struct uc_ctrl_guest_key *key)
{
	struct zeros *empty = uc_only_entry(&nothing);

	return empty ? uc_find_or_add(&guests, key, empty) : NULL;
}

/* Returns the first `bits` bits of a big-endian word; 0 or less: none. */
static __always_inline __u32 prefix_of(__u32 word_be, __s32 bits)
{
	if (bits >= 32)
		return word_be;
	return bits <= 0 ? 0 : word_be & bpf_htonl(~0U << (32 - bits));
}

/* Sets the keys of the connection's group and guest in own. */
static __always_inline void name_group(struct sock *sk, struct uc_ctrl *own)
{
	struct uc_ctrl_policy *policy = policy_now();
	__u32 words[4] = {0, 0, bpf_htonl(0xffff), sk->__sk_common.skc_daddr};
	__u8 mapped;
	__s32 bits;

	if (!policy)
		return;
	if (sk->__sk_common.skc_family == UC_AF_INET6) {
		words[0] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0];
		words[1] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1];
		words[2] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2];
		words[3] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
	}
	/* an IPv6 socket may use IPv4: ::ffff:a.b.c.d */
	mapped = !words[0] && !words[1] && words[2] == bpf_htonl(0xffff);
	bits = uc_ccc_prefix_bits(mapped, policy->prefix4, policy->prefix6);
	words[0] = prefix_of(words[0], bits);
	words[1] = prefix_of(words[1], bits - 32);
	words[2] = prefix_of(words[2], bits - 64);
	words[3] = prefix_of(words[3], bits - 96);
	__builtin_memcpy(own->group.remote, words, sizeof(words));
	own->guest.netns = sk->__sk_common.skc_net.net->net_cookie;
	own->group.netns = policy->apart ? own->guest.netns : 0;
	own->guest.group = own->group;
}

/* Returns the weight of a namespace (port 0) or of a TCP port in it, 1 to 255; 0: none is set. */
static __always_inline __u32 weight_of(__u64 netns, __u32 port)
{
	struct uc_ctrl_weight_key key = {.netns = netns, .port = port};
	__u32 *weight = bpf_map_lookup_elem(&weights, &key);

	return weight ? uc_max64(uc_min64(*weight, UC_CCC_WEIGHT_MAX), 1) : 0;
}

/* Reads the weight of the connection's namespace and its priority: that of its local TCP port, or
 * of the remote one, or 1. */
static __always_inline void learn_weights(struct sock *sk, struct uc_ctrl *own, __u32 version)
{
	__u32 priority = weight_of(own->guest.netns, sk->__sk_common.skc_num);

	if (!priority)
		priority = weight_of(own->guest.netns, bpf_ntohs(sk->__sk_common.skc_dport));
	own->priority = uc_max64(priority, 1);
	own->weight = uc_max64(weight_of(own->guest.netns, 0), 1);
	own->weights_version = version;
}

#endif
