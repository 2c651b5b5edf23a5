/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Undercurrent's core: every decision is taken here, nothing else is.
 *
 * A home (BPF program, simulator, kernel module) parses a packet into a uc_segment, finds the
 * uc_flow and calls
 *
 *   uc_open()       for a SYN, with the port's policy: is this a flow to translate?
 *   uc_reopen()     for a SYN-ACK of a known flow, first: is it another connection's by now?
 *   uc_translate()  for everything else of a known flow
 *
 * (and, where flows may share windows, uc_tell_share(): laws/coupled.h) and writes what uc_edit
 * says. The core reads no packet, calls no helper, keeps no global, never asks for the time, and
 * uses integers only.
 *
 * A walk through it: a SYN of the guest gets ECE and CWR (handshake.h). The guest's data leave as
 * ECT(0) and are counted (track.h). A switch marks one; the receiver's ACK carries ECE; the law
 * (laws/) halves the shadow; window.h turns the shadow's window into the ACK's window field; ECE
 * is taken off, and the guest's next data carry CWR. The guest saw a receiver with less room.
 */
#ifndef UC_CORE_H
#define UC_CORE_H

#include "echo.h"
#include "guard.h"
#include "handshake.h"

static __always_inline __u8 uc_is_syn(const struct uc_segment *segment)
{
	return (segment->flags & (UC_SYN | UC_ACK | UC_RST | UC_FIN)) == UC_SYN;
}

/* A segment of the guest in the middle of a flow: the shadow hears of it. */
static __always_inline enum uc_sent uc_sent_by_guest(struct uc_flow *flow,
						     const struct uc_segment *segment, __u64 now_ns)
{
	__u32 wire_bytes = segment->wire_payload_bytes | !segment->wire_payload_bytes;
	__u32 segments = (segment->payload_bytes + wire_bytes - 1) / wire_bytes;
	__u64 idle_us = 0;
	enum uc_sent sent;

	if (!uc_flight_bytes(flow) && flow->sent_ns)
		idle_us = uc_since_ns(now_ns, flow->sent_ns) / 1000;
	sent = uc_track_sent(flow, segment, now_ns);
	if (sent != UC_SENT_NOTHING)
		uc_law_sent(flow, sent, segments, idle_us);
	if (uc_is_coupled(flow))
		uc_coupled_sent(flow, sent);
	/* the guest goes on: the reset that was seen was not one for it, and a SYN of its that was
	 * seen is of no new connection, where it would wait for the answer */
	flow->bits &= ~(UC_FLOW_RESET | UC_FLOW_GUEST_ASKED);
	return sent;
}

/* The same segment: what the network is to see of it. */
static __always_inline void uc_from_guest(struct uc_flow *flow, const struct uc_segment *segment,
					  __u64 now_ns, struct uc_edit *edit)
{
	enum uc_sent sent = uc_sent_by_guest(flow, segment, now_ns);

	if (flow->policy.observe)
		return;
	edit->flags &= ~(UC_ECE | UC_CWR);
	edit->ecn = UC_NOT_ECT;
	if (!(flow->bits & UC_FLOW_ECN))
		return;
	/* RFC 3168 §6.1.4 to §6.1.6: ECT on new data only, not on retransmissions, pure ACKs or
	 * window probes */
	if (sent == UC_SENT_NEW && segment->payload_bytes && flow->peer_window) {
		edit->ecn = UC_ECT0;
		if (flow->bits & UC_FLOW_CWR_PENDING || uc_law_asks_exact(flow)) {
			edit->flags |= UC_CWR;
			flow->bits &= ~UC_FLOW_CWR_PENDING;
		}
	}
	if (uc_law_marks_all(flow))
		edit->ecn = UC_ECT0;
	edit->flags = uc_echo_flags(flow, segment, edit->flags);
}

/* The window of an ACK to the guest, out of the law's. */
static __always_inline void uc_tell(struct uc_flow *flow, const struct uc_segment *segment,
				    __u8 duplicate, struct uc_edit *edit)
{
	__u8 observe = flow->policy.observe;

	if (!observe)
		edit->window = uc_window(flow, segment);
	if (!observe && duplicate && uc_law_holds_duplicates(flow) &&
	    flow->given_window <= segment->window &&
	    (__u32)flow->given_window << (flow->wscale & 15) >= uc_flight_bytes(flow))
		edit->window = flow->given_window;
	flow->given_window = edit->window;
	uc_give(flow, segment->ack + ((__u32)edit->window << (flow->wscale & 15)));
}

/*
 * The end of what uc_awaits() began: the group's answer, or none from a home that found no group.
 * Another CPU may have told the window of a later ACK meanwhile; then this one repeats that edge,
 * in case the guest sees it first.
 */
static __always_inline void uc_tell_share(struct uc_flow *flow, const struct uc_segment *segment,
					  __u8 awaits, const struct uc_ccc_answer *answer,
					  struct uc_edit *edit)
{
	__u32 edge = uc_after(flow->snd_nxt, flow->edge) ? flow->snd_nxt : flow->edge;

	if (answer)
		uc_coupled_obey(flow, answer);
	if (segment->ack == flow->snd_una)
		uc_tell(flow, segment, awaits & UC_AWAITS_DUPLICATE, edit);
	else if (uc_before(segment->ack, edge))
		edit->window = uc_min(uc_units_up(edge - segment->ack, flow->wscale & 15),
				      segment->window);
}

/* A segment to the guest in the middle of a flow. */
static __always_inline void uc_to_guest(struct uc_flow *flow, const struct uc_segment *segment,
					__u64 now_ns, struct uc_edit *edit)
{
	__u8 observe = flow->policy.observe;
	struct uc_ack ack;

	uc_echo_received(flow, segment);
	if (segment->flags & UC_FIN)
		flow->bits |= UC_FLOW_FIN_PEER;
	if (!observe) {
		edit->ecn = UC_NOT_ECT;
		edit->flags &= ~(UC_ECE | UC_CWR);
	}
	if (!(segment->flags & UC_ACK))
		return;

	ack = uc_track_ack(flow, segment, now_ns);
	/* RFC 9293 §3.10.7.4: the guest takes no window from such an ACK */
	if (ack.old)
		return;
	/* who only guesses can't: RFC 9293 §3.4.1 */
	flow->bits |= UC_FLOW_ANSWERED;
	uc_law_ack(flow, &ack);
	if (uc_is_coupled(flow) && uc_coupled_ack(flow, &ack))
		return;
	uc_tell(flow, segment, ack.duplicate, edit);
}

/*
 * Any segment but a SYN of a known flow. UC_TRANSLATED: write the edit. UC_NO_HANDSHAKE: the
 * segment passes, the flow stays. UC_BEYOND_EDGE: it is dropped, and the flow is as if it had never
 * been sent. Any other reason: write the edit, forget the flow.
 */
static __always_inline enum uc_reason uc_translate(struct uc_flow *flow,
						   const struct uc_segment *segment, __u64 now_ns,
						   struct uc_edit *edit)
{
	__u8 from_guest = segment->direction == UC_FROM_GUEST;

	*edit = uc_edit_none(segment);
	if (from_guest && flow->stage == UC_TRANSLATING && !(segment->flags & (UC_SYN | UC_RST)) &&
	    uc_is_beyond(flow, segment))
		return UC_BEYOND_EDGE;
	flow->seen_ns = now_ns;
	if (segment->flags & UC_RST) {
		/* Perhaps forged: the flow is not forgotten, only collected sooner. */
		flow->bits |= UC_FLOW_RESET;
		if (flow->stage != UC_TRANSLATING)
			return UC_NO_HANDSHAKE;
		if (flow->policy.observe)
			return UC_TRANSLATED;
		/* RFC 3168 §6.1.1: a RST is not ECT; nor may the guest see a signal on one */
		edit->ecn = UC_NOT_ECT;
		edit->flags &= ~(UC_ECE | UC_CWR);
		return UC_TRANSLATED;
	}
	if (segment->flags & UC_SYN)
		return uc_answer(flow, segment, now_ns, edit);
	if (flow->stage != UC_TRANSLATING)
		return UC_NO_HANDSHAKE;
	if (from_guest)
		uc_from_guest(flow, segment, now_ns, edit);
	else
		uc_to_guest(flow, segment, now_ns, edit);
	return UC_TRANSLATED;
}

#endif
