/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The receiving side: the peer sends ECT data to a guest that knows nothing of ECN. Its marks are
 * taken off before the guest sees them and echoed in its name (RFC 3168 §6.1.3).
 */
#ifndef UC_ECHO_H
#define UC_ECHO_H

#include "flow.h"
#include "segment.h"

/* Data to the guest. CWR ends the echo; a mark on the same packet starts it again. */
static __always_inline void uc_echo_received(struct uc_flow *flow, const struct uc_segment *segment)
{
	if (!segment->payload_bytes)
		return;
	if (segment->flags & UC_CWR)
		flow->bits &= ~UC_FLOW_ECE_LATCHED;
	if (segment->ecn == UC_CE) {
		flow->bits |= UC_FLOW_ECE_LATCHED;
		flow->marks++;
	}
}

/* The flags of what the guest sends: every ACK echoes until the peer says CWR. */
static __always_inline __u8 uc_echo_flags(const struct uc_flow *flow, __u8 flags)
{
	if (flow->bits & UC_FLOW_ECE_LATCHED && flags & UC_ACK && !(flags & UC_RST))
		return flags | UC_ECE;
	return flags;
}

#endif
