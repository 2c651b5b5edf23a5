/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the operator wants of a port. Copied into a flow at its handshake: a change of policy
 * reaches new flows, never one in the middle of its life.
 */
#ifndef UC_POLICY_H
#define UC_POLICY_H

#include <linux/types.h>

enum uc_law {
	UC_LAW_PASS, /* leave the flow alone */
	UC_LAW_ECN,  /* NewReno with RFC 3168 */
};

enum uc_profile {
	UC_PROFILE_LINUX, /* whole segments, growth when window-limited, proportional reduction */
	UC_PROFILE_RFC,   /* RFC 5681 and RFC 6582 to the letter, in bytes */
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
};

#define UC_ECN_SYNS_ALWAYS 255

#endif
