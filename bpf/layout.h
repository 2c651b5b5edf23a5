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

#endif
