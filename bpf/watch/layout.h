/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What lies in the watch programs' maps: the contract between them and user space.
 */
#ifndef UC_WATCH_LAYOUT_H
#define UC_WATCH_LAYOUT_H

#include <linux/bpf.h>

#include "../../core/watch.h"
#include "../key.h"
#include "event.h"
#include "probe.h"

/* Which end sends the data whose start is watched: either, or both. */
#define UC_DATA_FROM_CLIENT 0x01 /* who opens: its SYN waits for probes, the SYN-ACK answers */
#define UC_DATA_FROM_SERVER 0x02 /* who is called: its SYN-ACK waits, the client's ACK answers */

/* What the operator wants of a port's starts. */
struct uc_watch_port {
	struct uc_watch_policy policy;
	__u32 per_second; /* handshakes of the port that are watched; more of them pass */
	__u32 burst;      /* how many at once */
	__u8 sends;       /* UC_DATA_* of what the guest sends: this host probes */
	__u8 receives;    /* UC_DATA_* of what it receives: this host sets windows */
	__u8 pad[6];
};

/* What a port has left of that, and its guest's turns. */
struct uc_watch_allowance {
	struct bpf_spin_lock lock;
	__u32 tokens;
	__u64 refilled_ns;
	struct uc_watch_bucket bucket;
};

/* What user space says to all programs; zeroes until it does. */
struct uc_watch_control {
	/* Handshakes are held only before this moment: a holder that stops saying so holds none. */
	__u64 alive_until_ns;
	/* What to add to the kernel's clock for the wall clock that the hosts share. */
	__u64 wall_offset_ns;
	struct uc_probe_key key;
	/* skb->mark of frames that user space sends out of a port and that are to enter it instead,
	 * as if the guest had sent them. Drawn at random: nobody else's mark means that. 0: none.
	 */
	__u32 mark;
	__u32 pad;
};

/* Longest frame that is held: Ethernet, IPv4 with options or IPv6, TCP with options. */
#define UC_HELD_FRAME_BYTES 144

/* A SYN or SYN-ACK that waits in user space. The table outlives the process that works on it:
 * whoever comes next finds what it left. The program takes it out as its frame comes back,
 * so that it leaves once, however often and by whomever it is sent. */
struct uc_held {
	__u64 held_ns;
	__u64 wait_ns; /* it leaves so much later, and not before its probes have */
	__u32 span_ns; /* of the probes, from held_ns on */
	__u32 random;  /* of their gaps */
	__u8 probes;
	__u8 pad;
	__u16 frame_bytes;
	__u8 frame[UC_HELD_FRAME_BYTES];
	__u8 pad_end[4];
};

/* Hosts that run us, as prefixes: probes go nowhere else. */
struct uc_watch_prefix {
	__u32 bits; /* of `address`; IPv4 as ::ffff:a.b.c.d */
	__u8 address[16];
};

/* A flow at the host of the guest that receives. */
struct uc_watch_slot {
	struct bpf_spin_lock lock;
	__u32 tag; /* uc_tag_of() its key */
	__u64 seen_ns;
	__u32 connection; /* the sequence number of its SYN */
	__u8 closed;      /* a FIN or RST was seen: its ports may be used again */
	__u8 pad[3];
	struct uc_watch_flow flow;
};

/* A path has a record for each way that data can go on it. */
enum uc_path_role { UC_PATH_OUT, UC_PATH_IN };

struct uc_path_key {
	__u32 ifindex;
	__u32 role; /* enum uc_path_role */
	__u8 remote[16];
};

struct uc_path_slot {
	struct bpf_spin_lock lock;
	/* UC_PATH_OUT: the connection whose answer is awaited, since when */
	__be16 guest_port;
	__be16 remote_port;
	__u64 asked_ns;
	struct uc_watch_path path;
};

#endif
