/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the operator wants of a port. Copied into a flow at its handshake: a change of policy
 * reaches new flows, never one in the middle of its life.
 */
#ifndef UC_POLICY_H
#define UC_POLICY_H

#include <linux/types.h>

enum uc_law {
	UC_LAW_PASS,  /* leave the flow alone */
	UC_LAW_ECN,   /* NewReno with RFC 3168 */
	UC_LAW_DCTCP, /* RFC 8257 */
	UC_LAW_DELAY, /* Swift (SIGCOMM 2020), as far as a window can carry it */
	/* NewReno, with RFC 3168 where the peer speaks it, whose window is the flow's share of its
	 * group's: laws/coupled.h */
	UC_LAW_COUPLED,
};

enum uc_profile {
	UC_PROFILE_LINUX, /* whole segments, growth when window-limited, proportional reduction */
	UC_PROFILE_RFC,   /* RFC 5681 and RFC 6582 to the letter, in bytes */
};

/* How the far end tells of marks: that the host can't see in time, so policy says it. */
enum uc_echo_kind {
	UC_ECHO_EXACT,   /* a DCTCP receiver, or a guest behind a host that runs us: ECE on the ACKs
			  * of marked bytes */
	UC_ECHO_CLASSIC, /* RFC 3168: ECE until CWR. For law `dctcp` every data packet then carries
			  * CWR, and the peer echoes packet by packet, with an ACK for each */
};

/* What becomes of a guest that negotiates ECN itself. */
enum uc_guest_ecn {
	UC_GUEST_ECN_PASS,      /* it is left alone */
	UC_GUEST_ECN_TRANSLATE, /* its offer is taken off, and it is a guest without ECN: the
				 * translations concatenate */
};

struct uc_policy {
	__u8 law;     /* enum uc_law */
	__u8 profile; /* enum uc_profile */
	/*
	 * How many SYNs of a flow ask for ECN before the host falls back to a plain one, since some
	 * middleboxes drop such SYNs (RFC 3168 §6.1.1.1). 255: every one.
	 */
	__u8 ecn_syns;
	__u8 initial_window_segments; /* RFC 6928: 10; RFC 5681: 2 to 4 */
	/* law `dctcp` only */
	__u8 gain_shift;              /* g = 2^-gain_shift, 1 to 15; RFC 8257 §4.2: 4 */
	__u8 initial_alpha_q7;        /* 0 to 128; RFC 8257 §4.2: 128, which is 1 */
	__u8 beta_q7;                 /* AC/DC's priority, 0 to 128; 128 is 1: plain DCTCP */
	__u8 minimum_window_segments; /* below which no mark cuts: 2 as Linux, 1 as AC/DC; 0 is 1 */
	__u8 echo;                    /* enum uc_echo_kind: of the peer */
	/* any law */
	__u8 guest_ecn;      /* enum uc_guest_ecn */
	__u8 guard_segments; /* data so far beyond the edge given is dropped; 0: no guard */
	__u8 observe;        /* 1: keep the shadow and write nothing */
	/* law `delay` only */
	__u32 target_us;       /* the round-trip time to keep to, of a large window */
	__u32 target_range_us; /* how much more a window of one segment may have; 0: all the same */
};

#define UC_ECN_SYNS_ALWAYS 255

#endif
