/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Keys and values of the maps of the guests' coupled congestion controls, which user space reads
 * and writes. */
#ifndef UC_GUEST_CTRLTCP_H
#define UC_GUEST_CTRLTCP_H

#include <linux/bpf.h>
#include <linux/types.h>

#include "../core/coupling.h"
#include "../core/coupling/across.h"

#define UC_CTRL_GROUPS_MAX  4096
#define UC_CTRL_GUESTS_MAX  16384
#define UC_CTRL_WEIGHTS_MAX 16384

/* The key of a group: flows to the same remote prefix, which probably share a bottleneck. */
struct uc_ctrl_group_key {
	__u8 remote[16]; /* the prefix, zeros after it; IPv4 as ::ffff:a.b.c.d */
	__u64 netns;     /* the flows' namespace cookie; 0: namespaces share groups */
};

struct uc_ctrl_guest_key {
	struct uc_ctrl_group_key group;
	__u64 netns; /* SO_NETNS_COOKIE of the guest's sockets */
};

/* The key of a weight: that of a network namespace, or of its flows at one TCP port. */
struct uc_ctrl_weight_key {
	__u64 netns;
	__u32 port; /* TCP port, local or remote; 0: the namespace's own weight */
	__u32 pad;
};

struct uc_ctrl_policy {
	struct uc_ccc_policy group; /* for groups that are created from now on */
	__u32 weights_version;      /* incremented at each change of a weight */
	__u8 prefix4;               /* bits of a remote IPv4 address that identify a group */
	__u8 prefix6;               /* bits of a remote IPv6 address that identify a group */
	__u8 apart;                 /* 1: each network namespace has its own groups */
	__u8 pad;
};

/* A group. Its lock protects the group, its guests and their flows. */
struct uc_ctrl_group {
	struct bpf_spin_lock lock;
	__u32 members; /* connections, including idle ones */
	__u32 closed;  /* 1: without members; a new connection makes another group */
	__u32 opened;  /* 0: new, ccc has no values yet */
	struct uc_ccc ccc;
	struct uc_ccc_link host; /* state of the channel to a host that couples guests */
};

struct uc_ctrl_guest {
	struct uc_ccc_guest ccc;
	__u32 members; /* the guest's connections in the group, including idle ones */
	__u32 closed;  /* 1: without members; a new connection makes another entry */
};

/* One connection, protected by its socket's lock. */
struct uc_ctrl {
	struct uc_ccc_flow flow;
	struct uc_ccc_report report; /* the last one */
	struct uc_ccc_answer answer; /* the group's answer to the last report */
	struct uc_ctrl_group_key group;
	struct uc_ctrl_guest_key guest;
	__u64 acked_bytes; /* of the whole connection, at its last report */
	__u64 timer_ns; /* when its retransmission timer was last restarted for new data, or fired */
	struct uc_ccc_segments segments;
	__s32 beyond_bytes; /* the connection's window in whole segments minus the answer's */
	__u32 weights_version;
	__u32 weight; /* of the connection's network namespace */
	__u8 priority;
	__u8 joined;
	__u8 tcp_state; /* enum tcp_ca_state; UC_TCP_CA_LOSS + 1: the timer fired again */
	__u8 refusals;  /* failed attempts to join */
};

#endif
