/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The receiving side: the peer sends ECT data to a guest without ECN. The host clears the marks
 * before the guest sees them, and echoes them in the guest's ACKs.
 *
 * The classic echo (RFC 3168 §6.1.3) sets ECE on each ACK from the mark until the peer sends CWR,
 * so that the loss of an ACK loses no signal. A DCTCP sender counts bytes and would take the bytes
 * of all those ACKs as marked; with law `dctcp` it gets an exact echo. A sender shows which kind it
 * is: RFC 3168 §6.1.4 forbids ECT on pure ACKs, but DCTCP senders (Linux's, and this law's) set it
 * there, from the last ACK of the handshake on, and on their SYN-ACK (RFC 8257 §3.6). Any other
 * sender is treated as classic.
 *
 * The exact echo: by RFC 8257 §3.2 the receiver sends an ACK at once when marks begin or end, so
 * that each ACK covers only marked or only unmarked bytes. A host can't make the guest do that: an
 * ACK that covers both kinds has one bit for them. So it sets ECE as soon as one marked byte isn't
 * echoed yet, which delays no signal, and subtracts what it echoed too much from the marks that
 * follow. The sum is exact to within one ACK.
 */
#ifndef UC_ECHO_H
#define UC_ECHO_H

#include "acceptable.h"
#include "flow.h"
#include "segment.h"

/* Returns whether the flow's peer gets the exact echo. */
static __always_inline __u8 uc_echoes_exactly(const struct uc_flow *flow)
{
	return uc_law_has(flow->policy.law, UC_EXACT) && flow->bits & UC_FLOW_PEER_DCTCP;
}

/* Learns from a segment of the peer whether the peer is a DCTCP sender. */
static __always_inline void uc_echo_learn(struct uc_flow *flow, const struct uc_segment *segment)
{
	if (!segment->payload_bytes && segment->ecn != UC_NOT_ECT)
		flow->bits |= UC_FLOW_PEER_DCTCP;
}

/* Adds the bytes of a marked segment that no ACK has covered yet to those that must be echoed. */
static __always_inline void uc_echo_owe(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u32 bytes = segment->payload_bytes,
	      uncovered = uc_segment_end(segment) - flow->echoed_ack;

	if (!uc_knows_ack(flow))
		uncovered = bytes;
	/* a copy of acknowledged data, which no further ACK covers; or invalid */
	if (uncovered - 1 >= UC_WINDOW_MAX || flow->echo_owed_bytes >= UC_WINDOW_MAX / 2)
		return;
	flow->echo_owed_bytes += bytes < uncovered ? bytes : uncovered;
}

/* Records marks on data that the guest accepts (RFC 3168 §6.1.5). CWR ends the classic echo; a mark
 * on the same packet starts it again. */
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

/*
 * Takes in an ACK of the guest. Returns whether it covers bytes while marked bytes are still to be
 * echoed. Only bytes that passed the port count as covered. If the last ACK was of others, any ACK
 * takes its place.
 */
static __always_inline __u8 uc_echo_owed(struct uc_flow *flow, __u32 ack)
{
	__u32 seen_bytes = flow->peer_nxt - flow->echoed_ack;
	__u32 acked_bytes = uc_min(ack - flow->echoed_ack, seen_bytes);

	if (!uc_knows_ack(flow))
		acked_bytes = 0;
	else if (!uc_after(ack, flow->echoed_ack))
		return 0;
	flow->echoed_ack = ack;
	if (flow->echo_owed_bytes <= 0)
		return 0;
	flow->echo_owed_bytes -= acked_bytes;
	return 1;
}

/* Returns the TCP flags of the guest's segment, with ECE if it must echo a mark. `owed`: what
 * uc_echo_owed() returned for it. */
static __always_inline __u8 uc_echo_flags(const struct uc_flow *flow, __u8 owed, __u8 flags)
{
	__u8 echo = !!(flow->bits & UC_FLOW_ECE_LATCHED);

	if (!(flags & UC_ACK))
		return flags;
	if (uc_echoes_exactly(flow))
		echo = owed;
	return echo ? flags | UC_ECE : flags;
}

#endif
