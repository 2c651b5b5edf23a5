/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* PVTCP's form without a module: what it is told, and what it tells. */
#ifndef UC_GUEST_PVTCP_H
#define UC_GUEST_PVTCP_H

#include <linux/types.h>

/* TCP_RTO_MIN, the kernel's own least timeout: a socket's can only be below it. */
#define UC_PVTCP_MOST_US 200000

struct uc_pvtcp_policy {
	__u32 least_us; /* a connection's least timeout while there are no stalls */
	__u32 hold_ms;  /* stalls count as long as the last of them is not older */
	__u32 late_us;  /* a tick that is later was stalled */
	__u32 unused;
};

/* What the machine's processors have seen; the first three are for the programs. */
struct uc_pvtcp_stalls {
	__u64 last_ns;
	__u64 longest_us; /* of late, see heard() */
	__u64 count;
};

struct uc_pvtcp_counts {
	__u64 sockets; /* that have been given a least timeout */
	__u64 raised;
	__u64 lowered;
	__u64 timeouts; /* of these sockets; and those within a tick or two of a stall's end */
	__u64 after_stall;
	__u64 refused; /* the kernel didn't take the least timeout: it is below two ticks */
};

#endif
