/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The receiving side: the peer sends ECT data to a guest that knows nothing of ECN. Its marks are
 * taken off before the guest sees them and echoed in its name.
 *
 * As RFC 3168 §6.1.3 has it: ECE on every ACK from the mark until the peer says CWR, so that the
 * loss of an ACK loses no signal. A DCTCP sender counts bytes and would take all of those for
 * marked; where the law is `dctcp`, it gets an exact echo. Which of the two a sender is, it tells
 * itself: RFC 3168 §6.1.4 forbids ECT on pure ACKs, and DCTCP senders (Linux, and ours) set it
 * there, on the last ACK of the handshake already, and on their SYN-ACK (RFC 8257 §3.6). Who has
 * not shown that is taken for a classic sender.
 *
 * Exact: RFC 8257 §3.2 has the receiver answer at once when marks begin and end, so that each ACK
 * is wholly one or the other. A host can't make the guest do that: an ACK that covers marked and
 * unmarked bytes has one bit for both. It echoes as soon as any marked byte is owed, so no signal
 * waits; what it said too much is held against the marks that follow, so the sum is right to
 * within one ACK.
 */
#ifndef UC_ECHO_H
#define UC_ECHO_H

#include "flow.h"
#include "segment.h"

#define UC_WINDOW_MAX (1 << 30)

static __always_inline __u8 uc_echoes_exactly(const struct uc_flow *flow)
{
	return flow->policy.law == UC_LAW_DCTCP && flow->bits & UC_FLOW_PEER_DCTCP;
}

/* A segment of the peer: what its codepoint tells of its sender. */
static __always_inline void uc_echo_learn(struct uc_flow *flow, const struct uc_segment *segment)
{
	if (!segment->payload_bytes && segment->ecn != UC_NOT_ECT)
		flow->bits |= UC_FLOW_PEER_DCTCP;
}

/* Marked data: how many of its bytes has no ACK covered yet? */
static __always_inline void uc_echo_owe(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u32 bytes = segment->payload_bytes,
	      uncovered = uc_segment_end(segment) - flow->echoed_ack;

	/* a copy of what was acknowledged, of which no ACK will speak; or garbage: RFC 7323 §2.3,
	 * no window is larger */
	if (uncovered - 1 >= UC_WINDOW_MAX || flow->echo_owed_bytes >= UC_WINDOW_MAX / 2)
		return;
	flow->echo_owed_bytes += bytes < uncovered ? bytes : uncovered;
}

/* Data to the guest. CWR ends the echo; a mark on the same packet starts it again. */
static __always_inline void uc_echo_received(struct uc_flow *flow, const struct uc_segment *segment)
{
	uc_echo_learn(flow, segment);
	if (!segment->payload_bytes)
		return;
	if (segment->flags & UC_CWR)
		flow->bits &= ~UC_FLOW_ECE_LATCHED;
	if (segment->ecn == UC_CE) {
		flow->bits |= UC_FLOW_ECE_LATCHED;
		uc_echo_owe(flow, segment);
		flow->marks++;
	}
}

/* An ACK of the guest: does it cover bytes while marked ones are owed? */
static __always_inline __u8 uc_echo_owed(struct uc_flow *flow, __u32 ack)
{
	__u32 acked_bytes = ack - flow->echoed_ack;

	if (acked_bytes - 1 >= UC_WINDOW_MAX)
		return 0;
	flow->echoed_ack = ack;
	if (flow->echo_owed_bytes <= 0)
		return 0;
	flow->echo_owed_bytes -= acked_bytes;
	return 1;
}

/* The flags of what the guest sends. */
static __always_inline __u8 uc_echo_flags(struct uc_flow *flow, const struct uc_segment *segment,
					  __u8 flags)
{
	__u8 echo = !!(flow->bits & UC_FLOW_ECE_LATCHED), owed;

	if (!(flags & UC_ACK) || flags & UC_RST)
		return flags;
	/* kept up for a classic sender too: it may turn out to be another */
	owed = uc_echo_owed(flow, segment->ack);
	if (uc_echoes_exactly(flow))
		echo = owed;
	return echo ? flags | UC_ECE : flags;
}

#endif
