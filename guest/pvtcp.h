/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* PVTCP by BPF alone: its settings and counters. */
#ifndef UC_GUEST_PVTCP_H
#define UC_GUEST_PVTCP_H

#include <linux/types.h>

/* TCP_RTO_MIN, the kernel's default minimum RTO; a socket's minimum RTO can only be smaller. */
#define UC_PVTCP_MOST_US 200000

struct uc_pvtcp_policy {
	__u32 least_us; /* a connection's minimum RTO while there are no stalls */
	__u32 hold_ms;  /* time after the last stall for which the minimum RTO stays raised */
	__u32 late_us;  /* minimum lateness of a tick that counts as a stall */
	__u32 unused;
};

/* Stalls of all processors. */
struct uc_pvtcp_stalls {
	__u64 last_ns;    /* end of the last stall, CLOCK_MONOTONIC */
	__u64 longest_us; /* longest recent stall, see heard() in pvtcp.bpf.c */
	__u64 count;
};

struct uc_pvtcp_counts {
	__u64 sockets; /* whose minimum RTO these programs have set */
	__u64 raised;  /* times that a socket's minimum RTO was raised */
	__u64 lowered;
	__u64 timeouts;    /* retransmission timeouts of sockets in the control group */
	__u64 after_stall; /* of the timeouts, those within ECHO_NS of a stall's end */
	__u64 refused;     /* the kernel refused the minimum RTO: it is below two ticks */
};

#endif
