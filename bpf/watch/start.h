/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flow starts at the receiving host: their table entries, and the windows that the core writes.
 *
 * A program holds one lock at a time. So a path's record is copied out, and back when the core has
 * used it. What another flow has written meanwhile is lost, which is harmless: records are
 * estimates.
 */
#ifndef UC_WATCH_START_H
#define UC_WATCH_START_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

/* The largest window of a SYN, which is not scaled (RFC 7323 §2.2). */
#define UC_HANDSHAKE_WINDOW_MAX 65535

/* Returns the flow's entry, a new one if there is none; NULL if the table is full. */
static __always_inline struct uc_watch_slot *uc_start_for(const struct uc_key *key)
{
	const struct uc_watch_slot fresh = {.tag = uc_tag_of(key)};

	return uc_find_or_add(&starts, key, &fresh);
}

/* Returns whether a new connection may use the entry. It may not if the entry belongs to a live
 * connection that was granted windows, which must not be lost to a forged or replayed packet. */
static __always_inline int uc_start_is_free(const struct uc_watch_slot *slot)
{
	return slot->closed || slot->flow.stage == UC_WATCH_COUNTING;
}

/* Resets the entry for a new connection. */
static __always_inline void uc_start_anew(struct uc_watch_slot *slot, __u32 connection)
{
	__builtin_memset(&slot->flow, 0, sizeof(slot->flow));
	slot->connection = connection;
	slot->closed = 0;
}

/*
 * Handles a SYN of a connection to be watched, in either direction. A SYN of another connection
 * resets the entry; one from the network only if the entry is free. Returns UC_WATCH_TABLE_FULL, or
 * UC_WATCH_NOTHING.
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

/* Returns whether a segment to the guest may belong to the entry's connection: a SYN-ACK must
 * answer the guest's SYN, with at most a window of data in it (RFC 7413). */
static __always_inline int uc_start_knows(const struct uc_watch_slot *slot,
					  const struct uc_segment *segment)
{
	return !(segment->flags & UC_SYN) ||
	       segment->ack - slot->connection - 1 <= UC_HANDSHAKE_WINDOW_MAX;
}

/* Counts a segment to the guest that is no SYN. Returns whether its flow is past its start, or
 * isn't watched. */
static __always_inline __u8 uc_start_to_guest(const struct uc_key *key,
					      const struct uc_segment *segment, __u64 now_ns)
{
	struct uc_watch_slot *slot = bpf_map_lookup_elem(&starts, key);
	__u32 tag = uc_tag_of(key);
	__u8 steady;

	if (!uc_lock_start(slot, tag))
		return 1;
	steady = uc_watch_is_steady(&slot->flow, segment);
	if (uc_start_knows(slot, segment) && uc_watch_to_guest(&slot->flow, segment)) {
		slot->seen_ns = now_ns;
		slot->closed |= !!(segment->flags & (UC_FIN | UC_RST));
	}
	bpf_spin_unlock(&slot->lock);
	return steady;
}

/* Handles a segment of the guest: gets the window that the core wants, how long the packet waits,
 * and in `grant_bytes` for how much of the link to ask the granter, if one answers. Returns 0 if
 * the flow isn't watched. */
static __always_inline int uc_start_from_guest(const struct uc_key *key,
					       const struct uc_watch_port *port,
					       const struct uc_segment *segment, __u64 now_ns,
					       struct uc_watch_answer *answer, __u64 *wait_ns)
{
	struct uc_watch_slot *slot = bpf_map_lookup_elem(&starts, key);
	struct uc_watch_allowance *allowance = bpf_map_lookup_elem(&allowances, &key->ifindex);
	__u32 random = bpf_get_prandom_u32(), tag = uc_tag_of(key);
	struct uc_watch_bucket bucket;
	__u8 granted = port->policy.granted;
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
	uc_merge(answer->grant_bytes, now_ns);
	if (record) {
		bpf_spin_lock(&record->lock);
		record->path = path;
		bpf_spin_unlock(&record->lock);
	}
	/* only a SYN or SYN-ACK waits: the window granted by it is what is paced */
	if (!(segment->flags & UC_SYN))
		answer->grant_bytes = 0;
	if (answer->grant_bytes || answer->settle_bytes) {
		bpf_spin_lock(&allowance->lock);
		uc_watch_settle(&allowance->bucket, &port->policy, answer->settle_bytes);
		uc_merge(answer->settle_bytes, now_ns);
		*wait_ns = uc_watch_wait_ns(&allowance->bucket, &port->policy, answer->grant_bytes,
					    now_ns);
		if (granted)
			answer->grant_bytes = uc_watch_ask_for(
				&allowance->owed_bytes, answer->grant_bytes, answer->settle_bytes);
		bpf_spin_unlock(&allowance->lock);
	}
	if (!granted)
		answer->grant_bytes = 0;
	return 1;
}

/* Counts bytes to the port's guest, which take their part of the link. */
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
