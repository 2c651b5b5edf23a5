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
	__type(value, struct uc_place);
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
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_hand);
} hand SEC(".maps");

/* A slot before it is entered: too large for the stack, and without a lock of its own. */
struct uc_blank {
	__u64 words[(sizeof(struct uc_slot) + 7) / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_blank);
} blank SEC(".maps");

static __always_inline struct uc_slot *uc_blank_slot(void)
{
	__u32 zero = 0;
	struct uc_blank *slot = bpf_map_lookup_elem(&blank, &zero);

	if (slot)
		__builtin_memset(slot, 0, sizeof(*slot));
	return (struct uc_slot *)slot;
}

static __always_inline void uc_count(enum uc_reason reason)
{
	__u32 index = reason;
	__u64 *packets = bpf_map_lookup_elem(&reasons, &index);

	if (packets)
		(*packets)++;
}

/* Is what stands in this place gone or stale? Then it is free. */
static __always_inline int uc_is_free(const struct uc_key *held, __u32 index, __u64 now_ns)
{
	struct uc_slot *slot = held->port ? bpf_map_lookup_elem(&flows, held) : NULL;

	if (!slot || slot->place != index)
		return 1;
	if (!uc_is_stale(&slot->flow, now_ns))
		return 0;
	bpf_map_delete_elem(&flows, held);
	return 1;
}

/* Enters the key in a free place; returns 0 if none was found. */
static __always_inline int uc_take_place(const struct uc_key *key, __u64 now_ns, __u32 *index)
{
	__u32 zero = 0;
	struct uc_hand *turn = bpf_map_lookup_elem(&hand, &zero);

	if (!turn || !turn->places)
		return 0;
	for (int i = 0; i < UC_PLACES_TRIED; i++) {
		struct uc_place *place;
		struct uc_key held;
		int taken = 0;

		*index = turn->next++ % turn->places;
		place = bpf_map_lookup_elem(&places, index);
		if (!place)
			return 0;
		bpf_spin_lock(&place->lock);
		held = place->key;
		bpf_spin_unlock(&place->lock);
		if (!uc_is_free(&held, *index, now_ns))
			continue;
		bpf_spin_lock(&place->lock);
		/* unless another CPU came first; ports differ if anything does, as a rule */
		if (place->key.port == held.port && place->key.guest_port == held.guest_port &&
		    place->key.remote_port == held.remote_port) {
			place->key = *key;
			taken = 1;
		}
		bpf_spin_unlock(&place->lock);
		if (taken)
			return 1;
	}
	return 0;
}

#endif
