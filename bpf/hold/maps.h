/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The hold programs' maps. User space alone adds to them, and bounds what it adds.
 */
#ifndef UC_HOLD_MAPS_H
#define UC_HOLD_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../lookup.h"
#include "layout.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_hold_control);
} control SEC(".maps");

/* A port's packets on their way to user space. */
struct uc_hold_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* The ports by ifindex, each with a ring of its own: no tenant fills another's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__array(values, struct uc_hold_ring);
} rings SEC(".maps");

/* The flows whose packets are handed over. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 17);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct uc_key);
	__type(value, __u32);
} held_flows SEC(".maps");

/* How many packets of held flows passed because a ring was full, or the packet too large. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} passed SEC(".maps");

#endif
