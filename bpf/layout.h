/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What lies in the maps: the contract between the programs and user space.
 */
#ifndef UC_LAYOUT_H
#define UC_LAYOUT_H

#include <linux/bpf.h>

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

/*
 * The range of `places` that a CPU looks through, and where it goes on; user space deals the ranges
 * out. Each CPU has its own so that none is taken twice (one atomic fetch-and-add would do as
 * well, but 5.10 has none).
 */
struct uc_hand {
	__u32 next;
	__u32 first;
	__u32 end;
};

#endif
