/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs remember. All bounded; user space sets max_entries before it loads.
 */
#ifndef UC_MAPS_H
#define UC_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../core/core.h"
#include "layout.h"

/* How many places a new flow tries before it is passed as TABLE_FULL. */
#define UC_PLACES_TRIED 8

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct uc_key);
	__type(value, struct uc_slot);
} flows SEC(".maps");

/*
 * Where each flow is entered, so that a new flow can look whether an old one has gone stale: idle
 * flows are collected without a timer and without user space. As large as `flows`.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct uc_key);
} places SEC(".maps");

/* The ports' policies, by ifindex. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct uc_policy);
} policies SEC(".maps");

/* Packets by reason. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UC_REASON_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} reasons SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_hand);
} hands SEC(".maps");

static __always_inline void uc_count(enum uc_reason reason)
{
	__u32 index = reason;
	__u64 *packets = bpf_map_lookup_elem(&reasons, &index);

	if (packets)
		(*packets)++;
}

/* A place that is free, or whose flow is gone or stale. Returns 0 if none was found. */
static __always_inline int uc_take_place(const struct uc_key *key, __u64 now_ns, __u32 *place)
{
	__u32 zero = 0;
	struct uc_hand *hand = bpf_map_lookup_elem(&hands, &zero);

	if (!hand || hand->first == hand->end)
		return 0;
	for (int i = 0; i < UC_PLACES_TRIED; i++) {
		__u32 index = hand->next;
		struct uc_key *held = bpf_map_lookup_elem(&places, &index);
		struct uc_slot *slot;
		struct uc_key old;

		if (!held)
			return 0;
		hand->next = index + 1 < hand->end ? index + 1 : hand->first;
		old = *held;
		slot = old.port ? bpf_map_lookup_elem(&flows, &old) : NULL;
		if (slot && slot->place == index) {
			if (!uc_is_stale(&slot->flow, now_ns))
				continue;
			bpf_map_delete_elem(&flows, &old);
		}
		*held = *key;
		*place = index;
		return 1;
	}
	return 0;
}

#endif
