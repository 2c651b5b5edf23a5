/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Handshakes at the sending host: they wait while probes measure the path. This file also handles
 * the answers to them.
 *
 * A program can't hold a packet. It copies the frame into a table, notifies user space and drops
 * the packet; user space sends the probes and then the copy. The program does so only while user
 * space renews its heartbeat every few milliseconds. In case of any problem the packet passes at
 * once.
 */
#ifndef UC_WATCH_HOLD_H
#define UC_WATCH_HOLD_H

#include <stddef.h>
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

/* How long a handshake waits, for how many probes, and for how many bytes to ask the granter. */
struct uc_hold {
	__u64 wait_ns;
	__u32 span_ns;
	__u32 probes;
	__u32 ask_bytes;
	__u32 pad;
};

/* Decides whether to probe the flow's path now. Returns UC_WATCH_HELD, with `hold` filled in, or
 * UC_WATCH_RECENT. */
static __always_inline enum uc_watch_event uc_hold_probes(const struct uc_key *key,
							  const struct uc_watch_port *port,
							  __u64 now_ns, struct uc_hold *hold)
{
	struct uc_path_slot *record = uc_path_for(key, UC_PATH_OUT);
	struct uc_watch_path path = {};

	if (record) {
		bpf_spin_lock(&record->lock);
		hold->probes = uc_watch_probes(&port->policy, &record->path, now_ns);
		path = record->path;
		bpf_spin_unlock(&record->lock);
	} else {
		hold->probes = uc_watch_probes(&port->policy, &path, now_ns);
	}
	hold->span_ns = uc_watch_span_ns(&port->policy, &path);
	return hold->probes ? UC_WATCH_HELD : UC_WATCH_RECENT;
}

/* Removes a waiting handshake from the table. Returns 0 if there is none; of several callers
 * exactly one gets 1. */
static __always_inline int uc_hold_ends(const struct uc_key *key)
{
	return bpf_map_delete_elem(&held, key) != -ENOENT;
}

/* Copies a handshake's packet into the table. Returns UC_WATCH_HELD: drop the packet;
 * UC_WATCH_NO_ROOM: it passes. */
static __always_inline enum uc_watch_event uc_hold(struct __sk_buff *skb, const struct uc_key *key,
						   const struct uc_hold *hold, __u64 now_ns)
{
	struct uc_held *copy = uc_only_entry(&scratch);
	__u32 bytes;

	/* the copy would lose how to cut the packet into segments */
	if (!copy || skb->gso_size)
		return UC_WATCH_NO_ROOM;
	bytes = skb->len;
	copy->frame_bytes = bytes;
	/* The verifier of Linux 5.10 forgets the bounds of a value on the stack. So the length is
	 * in no use before its bounds are checked, nor after the load: it stays in one register. */
	asm volatile("" : "+r"(bytes));
	if (bytes < ETH_HLEN || bytes > UC_HELD_FRAME_BYTES)
		return UC_WATCH_NO_ROOM;
	if (bpf_skb_load_bytes(skb, 0, copy->frame, bytes))
		return UC_WATCH_NO_ROOM;
	copy->held_ns = now_ns;
	copy->wait_ns = hold->wait_ns;
	copy->span_ns = hold->span_ns;
	copy->random = bpf_get_prandom_u32();
	copy->probes = hold->probes;
	copy->ask_bytes = hold->ask_bytes;
	if (bpf_map_update_elem(&held, key, copy, BPF_NOEXIST))
		return UC_WATCH_NO_ROOM;
	if (bpf_ringbuf_output(&notices, (void *)key, sizeof(*key), 0)) {
		/* if it is gone already, user space has found it and sent it */
		return uc_hold_ends(key) ? UC_WATCH_NO_ROOM : UC_WATCH_HELD;
	}
	return UC_WATCH_HELD;
}

/* Starts timing a round trip as a handshake's segment leaves, if the path has a record. */
static __always_inline void uc_hold_asks(const struct uc_key *key, __u64 now_ns)
{
	struct uc_path_slot *record = uc_path_of(key, UC_PATH_OUT);

	if (!record)
		return;
	bpf_spin_lock(&record->lock);
	/* of several handshakes the first is timed, for a second at most */
	if (!record->asked_ns || uc_since_ns(now_ns, record->asked_ns) > UC_SECOND_NS) {
		record->asked_ns = now_ns;
		record->guest_port = key->guest_port;
		record->remote_port = key->remote_port;
	}
	bpf_spin_unlock(&record->lock);
}

/* Handles a segment to the guest: it may answer the handshake that is timed, or echo a mark. */
static __always_inline void uc_hold_answered(const struct uc_key *key,
					     const struct uc_watch_port *port,
					     const struct uc_segment *segment, __u64 now_ns)
{
	__u8 syn = !!(segment->flags & UC_SYN);
	struct uc_path_slot *record = uc_path_of(key, UC_PATH_OUT);

	if (!record)
		return;
	bpf_spin_lock(&record->lock);
	if (record->asked_ns && record->guest_port == key->guest_port &&
	    record->remote_port == key->remote_port) {
		uc_watch_answered(&port->policy, &record->path, syn ? segment->window : 0,
				  uc_offered_mss_bytes(segment),
				  uc_since_ns(now_ns, record->asked_ns));
		record->asked_ns = 0;
	} else if (!syn && segment->flags & UC_ECE) {
		uc_watch_echoed(&record->path);
	}
	bpf_spin_unlock(&record->lock);
}

#endif
