/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the hold's programs and user space share: the contract between them.
 */
#ifndef UC_HOLD_LAYOUT_H
#define UC_HOLD_LAYOUT_H

#include <linux/types.h>

#include "../../core/segment.h"
#include "../key.h"

/* Settings of user space for all programs; all zero until it runs. */
struct uc_hold_control {
	/* The heartbeat: packets are handed over only before this time, which user space renews. */
	__u64 alive_until_ns;
};

/*
 * Maximum number of SYNs in each direction of a port, and of SYN-ACKs to the guest, that are handed
 * over to user space in an interval if their flows are not held; and the interval's length in ns. A
 * server that accepts five thousand connections in a second gets them all.
 */
#define UC_HOLD_SYNS_MAX 512
#define UC_HOLD_SYNS_NS  100000000

/* The SYNs of one kind that were handed over. */
struct uc_hold_syns {
	__u64 interval; /* number of the interval: bpf_ktime_get_ns() ÷ UC_HOLD_SYNS_NS */
	__u64 count;    /* SYNs handed over in that interval */
};

/* What the programs know of a port. */
struct uc_hold_port {
	/* Cookies of the sockets from which user space sends frames: towards the guest, past all
	 * programs; towards the network, into the port as if the guest had sent them. */
	__u64 to_guest_cookie;
	__u64 to_network_cookie;
	/* skb->mark of the latter, a random number, so that no other mark equals it; never 0. */
	__u32 to_network_mark;
	__u32 pad;
	struct uc_hold_syns from_guest;
	struct uc_hold_syns to_guest;
	struct uc_hold_syns answers; /* SYN-ACKs to the guest */
};

/* Bit of uc_hold_flow.numbers: the guest has sent a segment. */
#define UC_HOLD_NOTED 1

/* What the programs note of a held flow: the newest ACK number, window and timestamps of the guest.
 * They write each word at once, so that user space reads no half of one. */
struct uc_hold_flow {
	__u64 numbers;    /* ACK number << 32 | window field << 16 | UC_HOLD_NOTED */
	__u64 timestamps; /* value of the option, as in the header; 0: none */
};

/* Number of packets that passed although their flow was held or could have been. */
struct uc_hold_passed {
	__u64 packets; /* of held flows, because a ring was full, or the packet too large */
	__u64 syns;    /* beyond UC_HOLD_SYNS_MAX */
};

/* A packet that is handed over: this head, and the whole frame behind it. */
struct uc_hold_head {
	struct uc_key key;
	__u32 mark; /* skb->mark of the packet; next field: its skb->priority */
	__u32 priority;
	__u32 frame_bytes;
	__u32 payload_bytes;
	__u16 gso_size; /* payload of one segment on the wire; 0: the frame is one segment */
	__u16 tcp_at;   /* offset of the TCP header in the frame */
	__u8 direction; /* enum uc_direction */
	__u8 options;   /* UC_OPT_* of a SYN or SYN-ACK */
	__u8 pad[2];
};

/*
 * Room for a frame in each size of entry: a ring buffer's entries have constant sizes. An ACK with
 * all its options fits into the first, a segment of an Ethernet of 1500 bytes into the second, a
 * super-segment as large as Linux makes them by default into the last: an IP packet of 65,535
 * bytes, since a larger one has no length that its header could hold.
 */
#define UC_HOLD_ACK_BYTES     176
#define UC_HOLD_SEGMENT_BYTES 1976
#define UC_HOLD_JUMBO_BYTES   10184
#define UC_HOLD_SUPER_BYTES   65549

#endif
