/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Handshakes at the sending host, which wait while their probes are on the way; and what comes
 * back.
 *
 * A program can't hold a packet: it copies the frame into a table, tells user space, and drops the
 * packet; user space sends probes, and then the copy. It does so only while user space says every
 * few milliseconds that it is there to send it. Whatever stands in the way, the packet passes.
 */
#ifndef UC_WATCH_HOLD_H
#define UC_WATCH_HOLD_H

#include <stddef.h>
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

/* What a handshake waits for. */
struct uc_hold {
	__u64 wait_ns;
	__u32 span_ns;
	__u32 probes;
};

/* Whether this flow's path is to be probed now. */
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

/* Takes what waits out of the table: 0 where nothing does. Of all who try, one succeeds. */
static __always_inline int uc_hold_ends(const struct uc_key *key)
{
	return bpf_map_delete_elem(&held, key) != -ENOENT;
}

/* UC_WATCH_HELD: the packet has been copied, and is to be dropped. Anything else: it passes. */
static __always_inline enum uc_watch_event uc_hold(struct __sk_buff *skb, const struct uc_key *key,
						   const struct uc_hold *hold, __u64 now_ns)
{
	__u32 bytes = skb->len;
	struct uc_held *copy = uc_only_entry(&scratch);

	/* what stands beside the frame would be lost: a VLAN's tag, how to cut it into segments */
	if (!copy || skb->vlan_present || skb->gso_size)
		return UC_WATCH_NO_ROOM;
	/* the compiler must not take the bounds for another number's */
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
	copy->frame_bytes = bytes;
	if (bpf_map_update_elem(&held, key, copy, BPF_NOEXIST))
		return UC_WATCH_NO_ROOM;
	if (bpf_ringbuf_output(&notices, (void *)key, sizeof(*key), 0)) {
		/* who found it in the table meanwhile has sent it */
		return uc_hold_ends(key) ? UC_WATCH_NO_ROOM : UC_WATCH_HELD;
	}
	return UC_WATCH_HELD;
}

/* A handshake's segment goes on its way: from here to its answer is a round trip, where the path
 * has a record. */
static __always_inline void uc_hold_asks(const struct uc_key *key, __u64 now_ns)
{
	struct uc_path_slot *record = uc_path_of(key, UC_PATH_OUT);

	if (!record)
		return;
	bpf_spin_lock(&record->lock);
	/* of many at once the first is followed, if not for ever */
	if (!record->asked_ns || uc_since_ns(now_ns, record->asked_ns) > UC_SECOND_NS) {
		record->asked_ns = now_ns;
		record->guest_port = key->guest_port;
		record->remote_port = key->remote_port;
	}
	bpf_spin_unlock(&record->lock);
}

/* A segment to the guest: the answer, or an echo of a mark on the way out. */
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
