/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The hold programs' maps. User space alone adds to them. Each port has a ring and a table of flows
 * of its own, as large as the port's memory: no tenant fills another's.
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

/* Ring buffer of each port, keyed by the port's interface index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__array(values, struct uc_hold_ring);
} rings SEC(".maps");

/* A port's flows whose packets are handed over: the key is a struct uc_key, the value a struct
 * uc_hold_flow. Only their sizes are given, since clang leaves types that only an inner map names
 * out of the object. */
struct uc_hold_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, sizeof(struct uc_key));
	__uint(value_size, sizeof(struct uc_hold_flow));
};

/* Table of the flows of each port, keyed by the port's interface index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__array(values, struct uc_hold_table);
} held_flows SEC(".maps");

/* Settings of each port, keyed by interface index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct uc_hold_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_hold_passed);
} passed SEC(".maps");

#endif
