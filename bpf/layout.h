/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What lies in the maps: the contract between the programs and user space.
 */
#ifndef UC_LAYOUT_H
#define UC_LAYOUT_H

#include <linux/bpf.h>

#include "../core/coupling/group.h"
#include "../core/flow.h"

/* IPv4 addresses as ::ffff:a.b.c.d. The port is part of the key: two guests of one host may use
 * the same addresses, and a flow between them is two flows. */
struct uc_key {
	__u32 port; /* ifindex */
	__be16 guest_port;
	__be16 remote_port;
	__u8 guest[16];
	__u8 remote[16];
};

struct uc_slot {
	struct bpf_spin_lock lock;
	__u32 place; /* in `places` */
	struct uc_flow flow;
};

/* Where a flow is entered. The lock keeps two CPUs from taking one place for two flows. */
struct uc_place {
	struct bpf_spin_lock lock;
	struct uc_key key; /* port 0: never taken */
};

/* Of all places: user space sets their number. */
struct uc_hand {
	__u32 next; /* where the next new flow starts to look; a lost increment does no harm */
	__u32 places;
};

/* Law `coupled`: whose window a port's flows share. By ifindex, beside the port's policy. */
struct uc_port_coupling {
	__u32 group;   /* ports of different numbers share nothing: one for each tenant, say */
	__u8 prefix4;  /* bits of the remote address that name a group in that: 32, each host */
	__u8 prefix6;  /* is one; 0, all are */
	__u8 weight;   /* the guest's, among those of its groups */
	__u8 priority; /* a flow's, among its guest's, where `priorities` has none for it */
	struct uc_ccc_policy rules; /* of a group that this port is the first to use */
};

/* A TCP port, at either end of a flow, whose flows have a priority of their own. */
struct uc_priority_key {
	__u32 port; /* ifindex */
	__u32 tcp_port;
};

struct uc_group_key {
	__u32 group;
	__be32 remote[4]; /* of the remote address what the prefix leaves */
};

/* A place for a group. Its lock covers its guests and their members, too. */
struct uc_group {
	struct bpf_spin_lock lock;
	struct uc_group_key key;
	__u64 used_ns; /* 0: never */
	struct uc_ccc ccc;
};

/* A place for a guest of a group; the guest is its port. The lock is for taking the place only. */
struct uc_group_guest {
	struct bpf_spin_lock lock;
	struct uc_group_key key;
	__u64 used_ns;
	struct uc_ccc_guest ccc;
	__u32 port; /* ifindex */
	__u32 pad;
};

/* A flow as a member, by its place in `places`. */
struct uc_member {
	struct uc_group_key key;
	__u32 group; /* places in `groups` and `guests`, if joined */
	__u32 guest;
	__u8 joined;
	__u8 weight;
	__u8 priority;
	__u8 refusals; /* times that it has found no room */
	struct uc_ccc_flow flow;
};

#endif
