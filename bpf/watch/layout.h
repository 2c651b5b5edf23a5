/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keys and values of the watch programs' maps: the contract between the programs and user space.
 */
#ifndef UC_WATCH_LAYOUT_H
#define UC_WATCH_LAYOUT_H

#include <linux/bpf.h>

#include "../../core/watch.h"
#include "../key.h"
#include "event.h"
#include "probe.h"

/* Which end of a connection sends the data whose start is controlled: one, or both. */
#define UC_DATA_FROM_CLIENT 0x01 /* the opening end: its SYN waits, the SYN-ACK answers */
#define UC_DATA_FROM_SERVER 0x02 /* the other end: its SYN-ACK waits, the client's ACK answers */

/* The operator's settings for flow starts at a port. The programs set `policy.granted`. */
struct uc_watch_port {
	struct uc_watch_policy policy;
	__u32 per_second; /* maximum number of the port's handshakes that are watched in a second;
			   * further ones pass */
	__u32 burst;      /* depth of the token bucket that per_second fills, in handshakes */
	__u8 sends;       /* UC_DATA_*, for data that the guest sends: this host probes */
	__u8 receives;    /* UC_DATA_*, for data that it receives: this host sets windows */
	__u8 pad[6];
};

/* A port's token bucket of handshakes, the bucket that paces its guest's flow starts, and what its
 * flows have yet to be charged for at a granter. */
struct uc_watch_allowance {
	struct bpf_spin_lock lock;
	__u32 tokens;
	__u64 refilled_ns;
	struct uc_watch_bucket bucket;
	__s32 owed_bytes; /* as of uc_watch_ask_for() */
	__u8 pad[4];
};

/* Settings of user space for both programs; all zero until it runs. */
struct uc_watch_control {
	/* The heartbeat: handshakes are held only before this time, which user space renews. */
	__u64 alive_until_ns;
	/* The hosts' common wall clock minus CLOCK_MONOTONIC. */
	__u64 wall_offset_ns;
	struct uc_probe_key key;
	/* Another key that probes may have while the hosts change to a new one; zeros: none. */
	struct uc_probe_key also;
	/* skb->mark of frames that user space sends out of a port to enter it instead, as if the
	 * guest had sent them. A random number, so that no other mark equals it; 0: none. */
	__u32 mark;
	__u8 granted; /* 1: a granter answers, which is asked for each first window */
	__u8 pad[3];
};

/* The longest frame that is held: Ethernet, IPv4 with options or IPv6, TCP with options. */
#define UC_HELD_FRAME_BYTES 144

/* A SYN or SYN-ACK that waits. The table outlives the process that serves it, so a new process
 * finds the handshakes that wait. The program removes the entry when the frame comes back, so the
 * frame leaves once, however often it is sent. */
struct uc_held {
	__u64 held_ns;
	__u64 wait_ns; /* the frame leaves this much after held_ns, but not before its probes */
	__u32 span_ns; /* time from held_ns in which the probes leave */
	__u32 random;  /* for the times at which the probes leave */
	__u8 probes;
	__u8 pad;
	__u16 frame_bytes;
	__u8 frame[UC_HELD_FRAME_BYTES];
	__u32 ask_bytes; /* bytes of the link to ask the granter for; 0: it is not asked */
};

/* A prefix of hosts that run watch programs, too; probes are sent to no others. */
struct uc_watch_prefix {
	__u32 bits; /* length of the prefix in `address`; IPv4 as ::ffff:a.b.c.d */
	__u8 address[16];
};

/* A flow at the receiving guest's host. */
struct uc_watch_slot {
	struct bpf_spin_lock lock;
	__u32 tag; /* uc_tag_of() its key */
	__u64 seen_ns;
	__u32 connection; /* the sequence number of the connection's SYN */
	__u8 closed;      /* 1: a FIN or RST was seen, its ports may be reused */
	__u8 pad[3];
	struct uc_watch_flow flow;
};

/* A path has a record for each direction of data: from the port's guest (OUT), and to it (IN). */
enum uc_path_role { UC_PATH_OUT, UC_PATH_IN };

struct uc_path_key {
	__u32 ifindex;
	__u32 role; /* enum uc_path_role */
	__u8 remote[16];
};

struct uc_path_slot {
	struct bpf_spin_lock lock;
	/* UC_PATH_OUT: the connection whose answer is awaited, and since when */
	__be16 guest_port;
	__be16 remote_port;
	__u64 asked_ns;
	struct uc_watch_path path;
};

#endif
