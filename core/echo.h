/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The receiving side: the peer sends ECT data to a guest that knows nothing of ECN. Its marks are
 * taken off before the guest sees them and echoed in its name: as RFC 3168 §6.1.3 has it, until the
 * peer says CWR; or, where the law is `dctcp`, byte for byte. RFC 8257 §3.2 makes a receiver answer
 * at once when marks begin and end, so that each ACK is wholly one or the other. A host can't make
 * the guest do that: an ACK that covers marked and unmarked bytes has one bit for both. What it
 * says too little or too much is carried to the next, so that the sum is right.
 */
#ifndef UC_ECHO_H
#define UC_ECHO_H

#include "flow.h"
#include "segment.h"

#define UC_WINDOW_MAX (1 << 30)

static __always_inline __u8 uc_echoes_exactly(const struct uc_flow *flow)
{
	return flow->policy.law == UC_LAW_DCTCP;
}

/* Data to the guest. CWR ends the echo; a mark on the same packet starts it again. */
static __always_inline void uc_echo_received(struct uc_flow *flow, const struct uc_segment *segment)
{
	if (!segment->payload_bytes)
		return;
	if (segment->flags & UC_CWR)
		flow->bits &= ~UC_FLOW_ECE_LATCHED;
	if (segment->ecn == UC_CE) {
		flow->bits |= UC_FLOW_ECE_LATCHED;
		/* what was acknowledged before is a copy, of which no ACK will speak */
		if (uc_after(uc_segment_end(segment), flow->echoed_ack) &&
		    flow->echo_owed_bytes < UC_WINDOW_MAX / 4)
			flow->echo_owed_bytes += segment->payload_bytes;
		flow->marks++;
	}
}

/* An ACK of the guest covers some bytes: were, with what is owed, half of them or more marked? */
static __always_inline __u8 uc_echo_owed(struct uc_flow *flow, __u32 ack)
{
	__s32 acked_bytes = (__s32)(ack - flow->echoed_ack);

	/* RFC 7323 §2.3: no window is larger; such an ACK is garbage */
	if (acked_bytes <= 0 || acked_bytes > UC_WINDOW_MAX)
		return 0;
	flow->echoed_ack = ack;
	if (2 * flow->echo_owed_bytes < acked_bytes)
		return 0;
	flow->echo_owed_bytes -= acked_bytes;
	return 1;
}

/* The flags of what the guest sends. */
static __always_inline __u8 uc_echo_flags(struct uc_flow *flow, const struct uc_segment *segment,
					  __u8 flags)
{
	__u8 echo = !!(flow->bits & UC_FLOW_ECE_LATCHED);

	if (!(flags & UC_ACK) || flags & UC_RST)
		return flags;
	if (uc_echoes_exactly(flow))
		echo = uc_echo_owed(flow, segment->ack);
	return echo ? flags | UC_ECE : flags;
}

#endif
