/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The watch programs' maps. All are bounded and nothing is evicted: if a table is full, new flows
 * pass. User space removes what is over.
 */
#ifndef UC_WATCH_MAPS_H
#define UC_WATCH_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../lookup.h"
#include "layout.h"

/* The ports that are watched, by ifindex. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct uc_watch_port);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct uc_watch_allowance);
} allowances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_watch_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct uc_watch_prefix);
	__type(value, __u8);
} peers SEC(".maps");

/* Packets of handshakes that wait for their probes, keyed by flow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct uc_key);
	__type(value, struct uc_held);
} held SEC(".maps");

/* Keys of held handshakes, which notify user space at once. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} notices SEC(".maps");

/* Scratch memory for a frame, which is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_held);
} scratch SEC(".maps");

/* Start of each flow whose guest receives the probed data, keyed by flow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct uc_key);
	__type(value, struct uc_watch_slot);
} starts SEC(".maps");

/* What probes found on the path to each remote host, keyed by port and host. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct uc_path_key);
	__type(value, struct uc_path_slot);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UC_WATCH_EVENT_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} watch_events SEC(".maps");

static __always_inline void uc_count_event(enum uc_watch_event event)
{
	__u32 index = event;
	__u64 *packets = bpf_map_lookup_elem(&watch_events, &index);

	if (packets)
		(*packets)++;
}

/* Locks the flow's entry. Returns 0, with nothing locked, if the entry is NULL, or has another
 * flow's tag by now. */
static __always_inline int uc_lock_start(struct uc_watch_slot *slot, __u32 tag)
{
	if (!slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	if (slot->tag == tag)
		return 1;
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/* Returns whether the flow's remote address is in a prefix of --peer: hosts that run the watch
 * programs, too. */
static __always_inline int uc_is_peer(const struct uc_key *key)
{
	struct uc_watch_prefix prefix = {.bits = 128};

	__builtin_memcpy(prefix.address, key->remote, 16);
	return bpf_map_lookup_elem(&peers, &prefix) != NULL;
}

static __always_inline struct uc_path_key uc_path_key_of(const struct uc_key *key,
							 enum uc_path_role role)
{
	struct uc_path_key path = {.ifindex = key->ifindex, .role = role};

	__builtin_memcpy(path.remote, key->remote, 16);
	return path;
}

/* Returns the record of the path to the flow's peer; NULL if there is none. */
static __always_inline struct uc_path_slot *uc_path_of(const struct uc_key *key,
						       enum uc_path_role role)
{
	struct uc_path_key path = uc_path_key_of(key, role);

	return bpf_map_lookup_elem(&paths, &path);
}

/* Returns the record of the path to the flow's peer, a new one if there is none; NULL if the table
 * is full. Only for segments whose number is limited: a guest could fill the table with others. */
static __always_inline struct uc_path_slot *uc_path_for(const struct uc_key *key,
							enum uc_path_role role)
{
	struct uc_path_key path = uc_path_key_of(key, role);
	const struct uc_path_slot fresh = {};

	return uc_find_or_add(&paths, &path, &fresh);
}

#define UC_SECOND_NS 1000000000ULL

/* Takes a token for a handshake from the port's bucket. Returns 0 if there is none. */
static __always_inline int uc_is_allowed(const struct uc_watch_port *port, __u32 ifindex,
					 __u64 now_ns)
{
	struct uc_watch_allowance *allowance = bpf_map_lookup_elem(&allowances, &ifindex);
	__u32 per_second = port->per_second, burst = port->burst;
	__u64 since_ns, refill;
	int may;

	if (!allowance || !per_second)
		return 0;
	bpf_spin_lock(&allowance->lock);
	since_ns = uc_since_ns(now_ns, allowance->refilled_ns);
	refill = burst;
	/* after a second the bucket is full, so the product below can't overflow */
	if (since_ns < UC_SECOND_NS)
		refill = since_ns * per_second / UC_SECOND_NS;
	if (refill && since_ns < UC_SECOND_NS)
		allowance->refilled_ns += refill * UC_SECOND_NS / per_second;
	else if (refill)
		allowance->refilled_ns = now_ns;
	refill += allowance->tokens;
	allowance->tokens = refill < burst ? refill : burst;
	may = allowance->tokens > 0;
	allowance->tokens -= may;
	bpf_spin_unlock(&allowance->lock);
	return may;
}

#endif
