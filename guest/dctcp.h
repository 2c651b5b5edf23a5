/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* State of one connection of the guest's DCTCP; user space reads it by the socket. */
#ifndef UC_GUEST_DCTCP_H
#define UC_GUEST_DCTCP_H

#include <linux/types.h>

struct uc_dctcp {
	/* the sending side, RFC 8257 §3.3 */
	__u32 alpha_q30;
	__u32 window_end;   /* SND.NXT when the observation window began, at which it ends */
	__u32 counted;      /* SND.UNA up to which bytes are counted */
	__u32 acked_bytes;  /* in this observation window */
	__u32 marked_bytes; /* of acked_bytes, those acknowledged with ECE */
	__u32 windows;      /* observation windows completed */
	__u32 reductions;   /* for marks, and for losses */
	/* the receiving side, RFC 8257 §3.2 */
	__u32 echoed_to; /* RCV.NXT before the segment that arrived last */
	__u32 ce;        /* DCTCP.CE: whether the last segment was marked */
	/* over the connection's life */
	__u32 transitions; /* from marked to unmarked or back, as a receiver */
	__u64 total_acked_bytes;
	__u64 total_marked_bytes;
};

#endif
