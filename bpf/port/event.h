/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is remembered of a flow's life, so that an operator can be told what the law did to it and
 * why: a ring of the last events of each flow. What lies in the maps; events.h writes it.
 */
#ifndef UC_EVENT_H
#define UC_EVENT_H

#include <linux/bpf.h>

enum uc_event_kind {
	UC_EVENT_NONE,
	UC_EVENT_OPENED,    /* the first SYN; value: enum uc_stage, so whose */
	UC_EVENT_SYN_AGAIN, /* value: SYNs so far */
	UC_EVENT_AGREED,    /* value: enum uc_agreed; after: the first window */
	UC_EVENT_CUT,       /* value: α in 1/2^30 of law `dctcp`; else the smoothed RTT, us */
	UC_EVENT_FAST_RETRANSMIT, /* value: bytes in flight, here and in the next */
	UC_EVENT_TIMEOUT,
	UC_EVENT_RECOVERED,
	UC_EVENT_BELOW,    /* before: the receiver's window; after: the one given, less */
	UC_EVENT_RETURNED, /* the same, no longer less */
	UC_EVENT_SHARED,   /* law `coupled`: the group's first answer; after: the share */
	UC_EVENT_GUARDED,  /* value: bytes beyond the furthest edge given */
	UC_EVENT_CLOSED,   /* value: enum uc_closing */
	UC_EVENT_KINDS,
};

/* The value of UC_EVENT_AGREED: the MSS in bytes, from bit 16 on the window's scale, and these. */
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
	__u32 before_bytes; /* the shadow's window before it, where the kind says nothing else */
	__u32 after_bytes;  /* and behind it; of a reduction, where that leads to */
	__u32 value;        /* as the kind has it */
	__u16 number;       /* in the flow's life, from 1 on */
	__u8 kind;          /* enum uc_event_kind */
	__u8 times;         /* one line stands for so many in a row; 255 and more */
};

_Static_assert(sizeof(struct uc_event) == 24, "an event is small, or a ring of them isn't");

/* Events kept of a flow: a power of two. */
#define UC_EVENTS_KEPT 16

/* By a flow's place. */
struct uc_ring {
	struct bpf_spin_lock lock;
	__u32 count; /* events so far */
	struct uc_event events[UC_EVENTS_KEPT];
};

/* What of a flow was told already, beside it in its slot. */
struct uc_noted {
	__u32 seen; /* uc_fingerprint() of what was told; 0: nothing was */
	__u32 cwnd; /* the shadow's before the segment at hand, in its own unit */
	__u8 turns; /* times that the window given fell below the receiver's, or returned */
	__u8 pad[3];
};

/* Flows that pass are in no table; the last of them are in a ring of their own, for the whole
 * host. */
#define UC_PASSED_KEPT 256

#endif
