/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Exact feedback (RFC 8257): negotiated as classic ECN. A DCTCP sender counts the bytes of ACKs
 * with ECE as marked; the classic echo sets ECE until CWR, so it would count too many. ECT on a
 * segment without data reveals a DCTCP sender: RFC 3168 §6.1.4 forbids it on pure ACKs, but DCTCP
 * senders (Linux's, and law `dctcp`) set it there, from the last ACK of the handshake on, and on
 * their SYN-ACK (RFC 8257 §3.6).
 *
 * By RFC 8257 §3.2 the receiver sends an ACK at once when marks begin or end, so that each ACK
 * covers only marked or only unmarked bytes. A host can't make the guest send such ACKs, and an ACK
 * that covers both kinds has one bit for them. So the host sets ECE while any marked byte is not
 * echoed yet, which delays no signal. An ACK that echoes more bytes than were marked leaves
 * echo_owed_bytes negative, and later marked bytes are added to it. The sum of echoed bytes is
 * exact to within one ACK.
 */
#ifndef UC_FEEDBACK_EXACT_H
#define UC_FEEDBACK_EXACT_H

#include "../acceptable.h"
#include "../flow.h"
#include "../segment.h"

/* Returns whether a segment of the peer shows a DCTCP sender. */
static __always_inline __u8 uc_exact_shows(const struct uc_segment *segment)
{
	return !segment->payload_bytes && segment->ecn != UC_NOT_ECT;
}

/* Processes marked data for the guest: adds its bytes that no ACK of the guest has covered yet to
 * echo_owed_bytes. */
static __always_inline void uc_exact_marked(struct uc_flow *flow, const struct uc_segment *segment)
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

/*
 * Processes an ACK of the guest. Returns whether it must report a mark: it covers new bytes while
 * echo_owed_bytes is positive. Only bytes that passed the port count as covered. If
 * echoed_ack acknowledges no data that passed the port (uc_knows_ack()), any ACK replaces it.
 */
static __always_inline __u8 uc_exact_reports(struct uc_flow *flow, __u32 ack)
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

#endif
