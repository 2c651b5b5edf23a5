/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The flow history: a ring of the last events of each flow, by which an operator sees what the law
 * did to it and why. This file has the layout in the maps; events.h writes the events.
 */
#ifndef UC_EVENT_H
#define UC_EVENT_H

#include <linux/bpf.h>

enum uc_event_kind {
	UC_EVENT_NONE,
	UC_EVENT_OPENED,          /* the first SYN; value: enum uc_stage, which tells whose SYN */
	UC_EVENT_SYN_AGAIN,       /* a repeated SYN; value: SYNs so far */
	UC_EVENT_AGREED,          /* value: enum uc_agreed; after: the first window */
	UC_EVENT_CUT,             /* value: law `dctcp`: α in 1/2^30; others: smoothed RTT, us */
	UC_EVENT_FAST_RETRANSMIT, /* value, as of UC_EVENT_TIMEOUT: bytes in flight */
	UC_EVENT_TIMEOUT,
	UC_EVENT_RECOVERED,
	UC_EVENT_BELOW,       /* before: the receiver's window; after: the advertised one */
	UC_EVENT_RETURNED,    /* the advertised window is the receiver's again */
	UC_EVENT_SHARED,      /* law `coupled`: the group's first answer; after: the share */
	UC_EVENT_GUARDED,     /* value: bytes beyond the furthest edge advertised */
	UC_EVENT_CLOSED,      /* value: enum uc_closing */
	UC_EVENT_WITHOUT_ECN, /* value: enum uc_remote_news */
	UC_EVENT_KINDS,
};

/* The value of UC_EVENT_AGREED: the MSS in bytes (bits 0 to 15), the window scale (16 to 19), and
 * these bits. */
enum uc_agreed {
	UC_AGREED_ECN = 0x1000000,
	UC_AGREED_SACK = 0x2000000,
	UC_AGREED_TIMESTAMPS = 0x4000000,
};

/* The value of UC_EVENT_CLOSED. */
enum uc_closing {
	UC_CLOSING_GUEST = 1, /* the guest's FIN was seen */
	UC_CLOSING_PEER = 2,
	UC_CLOSING_RESET = 4,
};

struct uc_event {
	__u64 at_ns;        /* CLOCK_MONOTONIC, from bpf_ktime_get_ns() */
	__u32 before_bytes; /* the shadow's window before the event, unless the kind says otherwise
			     */
	__u32 after_bytes;  /* the window after it; of a reduction, its target */
	__u32 value;        /* depends on the kind */
	__u16 number;       /* number of the event in the flow's life, from 1 on */
	__u8 kind;          /* enum uc_event_kind */
	__u8 times;         /* repetitions that the event stands for; 255: or more */
};

_Static_assert(sizeof(struct uc_event) == 24, "rings of events must stay small");

/* Events kept of a flow: a power of two. */
#define UC_EVENTS_KEPT 16

/* A flow's events, by its place in `flows`. */
struct uc_ring {
	struct bpf_spin_lock lock;
	__u32 count; /* events so far */
	struct uc_event events[UC_EVENTS_KEPT];
};

/* Size of a port's ring for flows that pass, which are in no table. */
#define UC_PASSED_KEPT 32

#endif
