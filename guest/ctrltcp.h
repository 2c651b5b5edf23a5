/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the guests' coupled congestion controls keep in maps; user space reads and writes them. */
#ifndef UC_GUEST_CTRLTCP_H
#define UC_GUEST_CTRLTCP_H

#include <linux/bpf.h>
#include <linux/types.h>

#include "../core/coupling.h"
#include "../core/coupling/across.h"

#define UC_CTRL_GROUPS_MAX  4096
#define UC_CTRL_GUESTS_MAX  16384
#define UC_CTRL_WEIGHTS_MAX 16384

/* Which flows share a bottleneck: those to the same remote prefix. */
struct uc_ctrl_group_key {
	__u8 remote[16]; /* the prefix, zeros after it; IPv4 as ::ffff:a.b.c.d */
	__u64 netns;     /* where namespaces have groups of their own; else 0 */
};

struct uc_ctrl_guest_key {
	struct uc_ctrl_group_key group;
	__u64 netns; /* SO_NETNS_COOKIE of its sockets */
};

/* Of a network namespace, or of its flows at one port. */
struct uc_ctrl_weight_key {
	__u64 netns;
	__u32 port; /* local or remote; 0: the namespace's own weight */
	__u32 pad;
};

struct uc_ctrl_policy {
	struct uc_ccc_policy group; /* of groups that are made from now on */
	__u32 weights_version;      /* counted up whenever a weight has changed */
	__u8 prefix4;               /* bits of the remote address that name a group */
	__u8 prefix6;
	__u8 apart; /* 1: each network namespace has groups of its own */
	__u8 pad;
};

/* The lock covers the group, its guests and their flows. Members are connections, heard or not;
 * what lost its last one is closed, and whoever comes must make another. */
struct uc_ctrl_group {
	struct bpf_spin_lock lock;
	__u32 members;
	__u32 closed;
	__u32 opened;
	struct uc_ccc ccc;
	struct uc_ccc_link host; /* for a host that couples guests; nobody may be there */
};

struct uc_ctrl_guest {
	struct uc_ccc_guest ccc;
	__u32 members;
	__u32 closed;
};

/* One connection. Its socket's lock covers it. */
struct uc_ctrl {
	struct uc_ccc_flow flow;
	struct uc_ccc_report report; /* the last one */
	struct uc_ccc_answer answer; /* to it */
	struct uc_ctrl_group_key group;
	struct uc_ctrl_guest_key guest;
	__u64 acked_bytes; /* of the whole connection, when it was reported last */
	__u64 timer_ns;    /* when its timer was last set for anything new, or fired */
	struct uc_ccc_segments segments;
	__s32 beyond_bytes; /* what its window is more than it was given, in whole segments */
	__u32 weights_version;
	__u32 weight; /* its namespace's */
	__u8 priority;
	__u8 joined;
	__u8 tcp_state; /* enum tcp_ca_state */
	__u8 refusals;  /* how often it found no room in a table */
};

#endif
