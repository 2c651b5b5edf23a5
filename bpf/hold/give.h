/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Hands a packet over to user space: a copy of the whole frame, super-segments too, in the port's
 * ring.
 */
#ifndef UC_HOLD_GIVE_H
#define UC_HOLD_GIVE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "../packet.h"
#include "maps.h"

/* Writes head and frame into an entry of the ring with room for `room` bytes of frame, a constant.
 * Returns 1 if user space gets the packet. */
static __always_inline int uc_hold_enter(struct __sk_buff *skb, void *ring,
					 const struct uc_hold_head *head, __u32 room)
{
	struct uc_hold_head *entry = bpf_ringbuf_reserve(ring, sizeof(*entry) + room, 0);
	__u32 bytes = head->frame_bytes;

	if (!entry)
		return 0;
	*entry = *head;
	/* one register for check and load, as older verifiers need it */
	asm volatile("" : "+r"(bytes));
	if (bytes < ETH_HLEN || bytes > room || bpf_skb_load_bytes(skb, 0, entry + 1, bytes)) {
		bpf_ringbuf_discard(entry, 0);
		return 0;
	}
	bpf_ringbuf_submit(entry, 0);
	return 1;
}

/* Hands a packet over in the smallest entry that has room. Returns 1 if user space gets it; 0 if
 * the ring is full or the frame is too large. */
static __always_inline int uc_hold_give(struct __sk_buff *skb, void *ring,
					const struct uc_hold_head *head)
{
	if (head->frame_bytes <= UC_HOLD_ACK_BYTES)
		return uc_hold_enter(skb, ring, head, UC_HOLD_ACK_BYTES);
	if (head->frame_bytes <= UC_HOLD_SEGMENT_BYTES)
		return uc_hold_enter(skb, ring, head, UC_HOLD_SEGMENT_BYTES);
	if (head->frame_bytes <= UC_HOLD_JUMBO_BYTES)
		return uc_hold_enter(skb, ring, head, UC_HOLD_JUMBO_BYTES);
	return uc_hold_enter(skb, ring, head, UC_HOLD_SUPER_BYTES);
}

#endif
