/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The payload of a full segment: its bounds, and what a SYN says of it. */
#ifndef UC_MSS_H
#define UC_MSS_H

#include "minmax.h"
#include "segment.h"

/* The smallest MSS that the core divides by: a smaller one is an attack, no path has it. */
#define UC_MSS_MIN_BYTES 48
/* The MSS of a peer that sends no MSS option (RFC 9293 §3.7.1). This is the value for IPv4; the one
 * for IPv6 is larger, and too small a unit errs to the safe side. */
#define UC_MSS_DEFAULT_BYTES 536
/* The largest segment size of a flow whose handshake was not seen: Ethernet's. */
#define UC_MSS_ADOPTED_BYTES 1460
/* Timestamps with their padding: each data segment carries that much less (RFC 7323 appendix A). */
#define UC_TIMESTAMPS_BYTES 12

/* Returns the MSS that a SYN or SYN-ACK offers, at least UC_MSS_MIN_BYTES. */
static __always_inline __u16 uc_offered_mss_bytes(const struct uc_segment *segment)
{
	__u16 mss_bytes = segment->mss_bytes;

	if (!(segment->options & UC_OPT_MSS))
		mss_bytes = UC_MSS_DEFAULT_BYTES;
	return uc_max(mss_bytes, UC_MSS_MIN_BYTES);
}

#endif
