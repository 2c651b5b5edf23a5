/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Starts at the receiving host: where they are entered, when one begins anew, and the window that
 * the core writes.
 *
 * One lock at a time: the record of a path is copied out, and back when the core has used it. What
 * another flow wrote meanwhile is lost, and was as good.
 */
#ifndef UC_WATCH_START_H
#define UC_WATCH_START_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

/* The flow's place, a new one if it has none; NULL: the table is full. */
static __always_inline struct uc_watch_slot *uc_start_for(const struct uc_key *key)
{
	const struct uc_watch_slot fresh = {.tag = uc_tag_of(key)};

	return uc_find_or_add(&starts, key, &fresh);
}

/* May a connection begin in it? Not where one lives that was given windows: what says otherwise may
 * be forged or a replay, and the windows must not be forgotten. */
static __always_inline int uc_start_is_free(const struct uc_watch_slot *slot)
{
	return slot->closed || slot->flow.stage == UC_WATCH_COUNTING;
}

static __always_inline void uc_start_anew(struct uc_watch_slot *slot, __u32 connection)
{
	__builtin_memset(&slot->flow, 0, sizeof(slot->flow));
	slot->connection = connection;
	slot->closed = 0;
}

/*
 * A SYN of a connection that is to be watched, in either direction. One of another connection than
 * the last begins anew, from the network in a free place only.
 */
static __always_inline enum uc_watch_event
uc_start_syn(const struct uc_key *key, const struct uc_segment *segment, __u64 now_ns)
{
	__u8 from_guest = segment->direction == UC_FROM_GUEST;
	struct uc_watch_slot *slot = uc_start_for(key);
	__u32 tag = uc_tag_of(key);

	if (!uc_lock_start(slot, tag))
		return UC_WATCH_TABLE_FULL;
	if (slot->connection != segment->seq && (from_guest || uc_start_is_free(slot)))
		uc_start_anew(slot, segment->seq);
	if (slot->connection == segment->seq && slot->flow.stage == UC_WATCH_COUNTING) {
		if (from_guest)
			uc_watch_learn(&slot->flow, segment);
		else
			uc_watch_to_guest(&slot->flow, segment);
		slot->seen_ns = now_ns;
	}
	bpf_spin_unlock(&slot->lock);
	return UC_WATCH_NOTHING;
}

/* Anything but a SYN, on its way to the guest: counted. Returns whether it is of a flow past its
 * start, or of none that starts here. */
static __always_inline __u8 uc_start_to_guest(const struct uc_key *key,
					      const struct uc_segment *segment, __u64 now_ns)
{
	struct uc_watch_slot *slot = bpf_map_lookup_elem(&starts, key);
	__u32 tag = uc_tag_of(key);
	__u8 steady;

	if (!uc_lock_start(slot, tag))
		return 1;
	steady = uc_watch_is_steady(&slot->flow, segment);
	uc_watch_to_guest(&slot->flow, segment);
	slot->seen_ns = now_ns;
	slot->closed |= !!(segment->flags & (UC_FIN | UC_RST));
	bpf_spin_unlock(&slot->lock);
	return steady;
}

/* The same, of the guest: what the core makes of its window. Returns 0 where the flow is none that
 * starts here. */
static __always_inline int uc_start_from_guest(const struct uc_key *key,
					       const struct uc_watch_port *port,
					       const struct uc_segment *segment, __u64 now_ns,
					       struct uc_watch_answer *answer, __u64 *wait_ns)
{
	struct uc_watch_slot *slot = bpf_map_lookup_elem(&starts, key);
	struct uc_watch_allowance *allowance = bpf_map_lookup_elem(&allowances, &key->ifindex);
	__u32 random = bpf_get_prandom_u32(), tag = uc_tag_of(key);
	struct uc_watch_bucket bucket;
	struct uc_watch_path path = {};
	struct uc_path_slot *record;

	if (!slot || !allowance)
		return 0;
	record = uc_path_for(key, UC_PATH_IN);
	if (record) {
		bpf_spin_lock(&record->lock);
		path = record->path;
		bpf_spin_unlock(&record->lock);
	}
	bpf_spin_lock(&allowance->lock);
	bucket = allowance->bucket;
	bpf_spin_unlock(&allowance->lock);
	if (!uc_lock_start(slot, tag))
		return 0;
	*answer = uc_watch_from_guest(&slot->flow, &port->policy, &path, &bucket, segment, now_ns,
				      random);
	slot->seen_ns = now_ns;
	slot->closed |= !!(segment->flags & (UC_FIN | UC_RST));
	bpf_spin_unlock(&slot->lock);
	if (record) {
		bpf_spin_lock(&record->lock);
		record->path = path;
		bpf_spin_unlock(&record->lock);
	}
	/* only what opens a connection waits: the answer to it is what the turn is of */
	if (!(segment->flags & UC_SYN))
		answer->grant_bytes = 0;
	if (answer->grant_bytes || answer->settle_bytes) {
		bpf_spin_lock(&allowance->lock);
		uc_watch_settle(&allowance->bucket, &port->policy, answer->settle_bytes);
		*wait_ns = uc_watch_wait_ns(&allowance->bucket, &port->policy, answer->grant_bytes,
					    now_ns);
		bpf_spin_unlock(&allowance->lock);
	}
	return 1;
}

/* Whatever comes to the port's guest takes its share of the link. */
static __always_inline void uc_start_heard(const struct uc_watch_port *port, __u32 ifindex,
					   __u32 bytes, __u8 steady, __u64 now_ns)
{
	struct uc_watch_allowance *allowance;

	if (!port->policy.pace_bytes_per_s)
		return;
	allowance = bpf_map_lookup_elem(&allowances, &ifindex);
	if (!allowance)
		return;
	bpf_spin_lock(&allowance->lock);
	uc_watch_heard(&allowance->bucket, &port->policy, bytes, steady, now_ns);
	bpf_spin_unlock(&allowance->lock);
}

#endif
