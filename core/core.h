/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Undercurrent's core: it takes every decision, and does nothing else.
 *
 * A platform (BPF program, simulator, kernel module) parses a packet into a uc_segment, finds the
 * uc_flow, calls
 *
 *   uc_step_unknown()     for a segment of no known flow (step.h)
 *   uc_step_known()       for a SYN or SYN-ACK of a known flow (step.h)
 *   uc_translate_later()  for any other segment of a known flow
 *
 * (and, where flows may share windows, uc_tell_share(): laws/coupled.h) and writes the uc_edit into
 * the packet. The core reads no packet, calls no helper, has no global variables, reads no clock
 * and uses integers only.
 *
 * An example: a SYN of the guest gets ECE and CWR (handshake.h). The guest's data leave as ECT(0)
 * and are counted (track.h). A switch marks one packet; the receiver's ACK carries ECE; the law
 * (laws/) halves the shadow's window; window.h converts that into the ACK's window field; ECE is
 * cleared, and the guest's next data carry CWR. The guest sees a receiver with less room.
 */
#ifndef UC_CORE_H
#define UC_CORE_H

#include "distrust.h"
#include "feedback.h"
#include "guard.h"
#include "handshake.h"
#include "hooks.h"
#include "merge.h"
#include "missed.h"

/* Returns whether the segment is a SYN without ACK, RST or FIN. */
static __always_inline __u8 uc_is_syn(const struct uc_segment *segment)
{
	return (segment->flags & (UC_SYN | UC_ACK | UC_RST | UC_FIN)) == UC_SYN;
}

/* Returns whether the host changes the flow's segments: not if policy only observes, or if the port
 * has not seen the flow's handshake (UC_FLOW_ADOPTED). */
static __always_inline __u8 uc_writes(const struct uc_flow *flow)
{
	return !uc_observes(&flow->policy) && !(flow->bits & UC_FLOW_ADOPTED);
}

/* Updates the shadow for a segment of the guest in an established flow. Returns UC_SENT_*, what the
 * segment is to the law. */
static __always_inline enum uc_sent uc_sent_by_guest(struct uc_flow *flow, struct uc_annex *annex,
						     const struct uc_segment *segment, __u64 now_ns)
{
	__u32 wire_bytes = uc_wire_bytes(flow, segment);
	struct uc_sample sample = {
		.now_ns = now_ns,
		.segments = (segment->payload_bytes + wire_bytes - 1) / wire_bytes,
	};
	enum uc_sent sent;
	__u8 again, late;

	if (uc_is_far(flow, segment))
		return UC_SENT_NOTHING;
	uc_agree_on_number(flow, segment);
	if (!uc_flight_bytes(flow) && flow->sent_tick)
		sample.idle_us = uc_idle_us(flow, now_ns);
	uc_merge(sample.idle_us, now_ns);
	uc_note_overrun(flow, segment);
	again = flow->bits & UC_FLOW_RESENT && segment->seq == flow->snd_una;
	late = uc_fills_hole(flow, segment);
	sent = uc_track_sent(flow, annex, segment, now_ns);
	sample.sent = sent;
	if (sent > UC_SENT_NEW && !late)
		uc_distrust_resent(flow, sent, again, sample.segments);
	if (sent != UC_SENT_NOTHING)
		uc_law_sent(flow, annex, &sample);
	if (uc_is_coupled(flow))
		uc_coupled_sent(flow, annex, &sample);
	/* The guest still uses this connection: the RST seen did not end it, and its stored SYN
	 * opened no new one, or it would wait for the answer. */
	flow->bits &= ~(UC_FLOW_RESET | UC_FLOW_GUEST_ASKED);
	return sent;
}

/* Translates a segment of the guest: updates the shadow, and sets the ECN fields for the network.
 */
static __always_inline void uc_from_guest(struct uc_flow *flow, struct uc_annex *annex,
					  const struct uc_segment *segment, __u64 now_ns,
					  struct uc_edit *edit)
{
	enum uc_sent sent = uc_sent_by_guest(flow, annex, segment, now_ns);
	__u8 exact = 0;

	flow->seen_ns = now_ns;
	if (segment->flags & UC_ACK) {
		uc_learn_guest_window(flow, segment->window);
		/* also for a sender that looks classic: it may turn out to be a DCTCP sender */
		exact = uc_exact_reports(flow, segment->ack);
	}
	if (!uc_writes(flow))
		return;
	uc_clear_feedback(edit);
	edit->ecn = UC_NOT_ECT;
	if (!uc_has_feedback(flow))
		return;
	if (segment->blind) {
		/* Nobody would answer a mark. The receiver still echoes earlier ones, to the guest,
		 * until CWR. */
		if (sent == UC_SENT_NEW && segment->payload_bytes)
			edit->flags |= UC_CWR;
		return;
	}
	/* RFC 3168 §6.1.4 to §6.1.6: ECT on new data only, not on retransmissions, pure ACKs or
	 * window probes */
	if (sent == UC_SENT_NEW && segment->payload_bytes && flow->peer_window) {
		if (uc_sends_ect(flow))
			edit->ecn = UC_ECT0;
		uc_classic_confirm(flow, uc_law_asks_exact(flow), edit);
	}
	if (uc_law_marks_all(flow) && uc_marks_rest(flow))
		edit->ecn = UC_ECT0;
	uc_feedback_write(flow, exact, edit);
}

/* Holds a flow whose windows can't be written: the guard measures its data against the law's own
 * window. If the port only echoes the flow's marks (uc_only_echoes()), no guard drops, and the edge
 * is the peer's. */
static __always_inline void uc_hold_flow(struct uc_flow *flow, __u32 ack)
{
	__u32 bytes = uc_only_echoes(flow) ? (__u32)flow->peer_window << uc_wscale(flow)
					   : uc_allowed_bytes(flow);

	flow->given_window = flow->peer_window;
	/* the largest window (RFC 7323 §2.3), so that circular comparisons stay right */
	uc_give(flow, ack + uc_min(bytes, 1U << 30));
}

/* Writes the law's window into an ACK to the guest, and records it as advertised. The ACK of an
 * observed or held flow is not changed. `duplicate`: it is a duplicate ACK. */
static __always_inline void uc_tell(struct uc_flow *flow, const struct uc_segment *segment,
				    __u8 duplicate, struct uc_edit *edit)
{
	__u8 observe = uc_observes(&flow->policy);

	if (flow->bits & UC_FLOW_HELD) {
		uc_hold_flow(flow, segment->ack);
		return;
	}
	if (!observe)
		edit->window = uc_window(flow, segment);
	if (!observe && duplicate && uc_law_holds_duplicates(flow) &&
	    flow->given_window <= segment->window &&
	    (__u32)flow->given_window << uc_wscale(flow) >= uc_flight_bytes(flow))
		edit->window = flow->given_window;
	flow->given_window = edit->window;
	uc_give(flow, segment->ack + ((__u32)edit->window << uc_wscale(flow)));
}

/* Writes the window of an ACK that a later one has overtaken: the right edge stays, since the guest
 * may receive this ACK first. The window of a held flow is not written. */
static __always_inline void uc_tell_edge(const struct uc_flow *flow,
					 const struct uc_segment *segment, struct uc_edit *edit)
{
	__u32 edge = uc_after(flow->snd_nxt, flow->edge) ? flow->snd_nxt : flow->edge;

	if (flow->bits & UC_FLOW_HELD)
		return;
	if (flow->bits & UC_FLOW_GIVEN && uc_before(segment->ack, edge))
		edit->window =
			uc_min(uc_units_up(edge - segment->ack, uc_wscale(flow)), segment->window);
}

/*
 * Completes an ACK for which uc_awaits() returned `awaits`: writes the window by the group's
 * answer, or the shadow's own if `answer` is NULL because the platform found no group. Another CPU
 * may have completed a later ACK meanwhile; then this one repeats that ACK's right edge, since the
 * guest may receive it first.
 */
static __always_inline void uc_tell_share(struct uc_flow *flow, struct uc_annex *annex,
					  const struct uc_segment *segment, __u8 awaits,
					  const struct uc_ccc_answer *answer, struct uc_edit *edit)
{
	if (answer)
		uc_coupled_obey(flow, annex, answer);
	if (segment->ack == flow->snd_una)
		uc_tell(flow, segment, awaits & UC_AWAITS_DUPLICATE, edit);
	else
		uc_tell_edge(flow, segment, edit);
}

/* Translates a segment to the guest in an established flow. Returns UC_TRANSLATED or UC_RESYNCED.
 */
static __always_inline enum uc_reason uc_to_guest(struct uc_flow *flow, struct uc_annex *annex,
						  const struct uc_segment *segment, __u64 now_ns,
						  struct uc_edit *edit)
{
	enum uc_reason reason;
	struct uc_sample sample;
	__u32 cuts;

	if (uc_writes(flow)) {
		edit->ecn = UC_NOT_ECT;
		uc_clear_feedback(edit);
	}
	if (!uc_is_acceptable(flow, segment))
		return UC_TRANSLATED;
	flow->seen_ns = now_ns;
	uc_feedback_received(flow, segment);
	uc_accept(flow, segment);
	if (segment->flags & UC_FIN)
		flow->bits |= UC_FLOW_FIN_PEER;

	if (flow->bits & UC_FLOW_UNSURE)
		uc_make_sure(flow, annex, segment->ack);
	reason = uc_catch_up(flow, segment->ack) ? UC_RESYNCED : UC_TRANSLATED;
	if (flow->bits & UC_FLOW_BLIND && uc_go_back(flow, annex, segment->ack))
		reason = UC_RESYNCED;
	uc_merge(reason, now_ns);
	sample = uc_track_ack(flow, annex, segment, now_ns);
	uc_merge(sample.duplicate, now_ns);
	uc_merge(sample.marked, now_ns);
	uc_merge(sample.marked_bytes, now_ns);
	if (sample.old) {
		if (uc_writes(flow))
			uc_tell_edge(flow, segment, edit);
		return reason;
	}
	/* An acceptable ACK proves that the peer got the SYN or SYN-ACK: an off-path attacker
	 * cannot guess the ISN (RFC 9293 §3.4.1). */
	flow->bits |= UC_FLOW_ANSWERED;
	cuts = flow->cuts;
	uc_law_ack(flow, annex, &sample);
	if (flow->trial | flow->ecn_lost | (flow->cuts ^ cuts)) {
		if (sample.acked_bytes)
			uc_distrust_acked(flow, &sample, flow->cuts != cuts);
		else
			uc_distrust_repeated(flow);
	}
	if (!uc_is_coupled(flow) || uc_only_echoes(flow) || !uc_coupled_ack(flow, annex, &sample))
		uc_tell(flow, segment, sample.duplicate, edit);
	return reason;
}

/* Returns the reason for a segment that comes before the handshake is done: strict mode drops data of
 * the guest; any other segment passes, and renews the flow's idle time if it is the guest's. */
static __always_inline enum uc_reason uc_too_early(struct uc_flow *flow,
						   const struct uc_segment *segment, __u64 now_ns)
{
	__u8 drops = uc_is_strict(&flow->policy) && segment->payload_bytes;

	if (segment->direction == UC_FROM_GUEST && !drops)
		flow->seen_ns = now_ns;
	return uc_verdict_of(drops, segment->direction,
			     drops && segment->blind ? UC_HALF_BLIND : UC_NO_HANDSHAKE);
}

/* Returns whether a segment to the guest carries a mark that nobody would echo. */
static __always_inline __u8 uc_is_unechoed(const struct uc_flow *flow,
					   const struct uc_segment *segment)
{
	return segment->blind && segment->ecn == UC_CE && segment->payload_bytes &&
	       uc_has_feedback(flow) && !uc_observes(&flow->policy);
}

/* Returns whether the guard ignores this segment: the port sees no ACKs (`blind`), so it does not
 * know what the guest may send. In strict mode the guard stays. */
static __always_inline __u8 uc_is_unguarded(const struct uc_flow *flow,
					    const struct uc_segment *segment)
{
	return segment->blind && !uc_is_strict(&flow->policy);
}

/* Handles a RST, and returns the reason to count it by. The RST's receiver may still refuse it, so
 * the flow stays in the table, but becomes stale sooner. */
static __always_inline enum uc_reason
uc_reset(struct uc_flow *flow, const struct uc_segment *segment, __u64 now_ns, struct uc_edit *edit)
{
	if (uc_resets(flow, segment)) {
		flow->seen_ns = now_ns;
		flow->bits |= UC_FLOW_RESET;
		if (segment->direction == UC_TO_GUEST && flow->stage == UC_SYN_SENT)
			uc_distrust_reset(flow);
	}
	if (flow->stage != UC_TRANSLATING)
		return UC_NO_HANDSHAKE;
	if (uc_writes(flow)) {
		/* RFC 3168 §6.1.1: a RST is not ECT; nor may the guest see a signal on one */
		edit->ecn = UC_NOT_ECT;
		uc_clear_feedback(edit);
	}
	return uc_only_echoes(flow) ? UC_COARSE_WINDOW : UC_TRANSLATED;
}

/* Checks a segment of the guest against the advertised windows. Returns UC_TRANSLATED: the flow is
 * unchanged. UC_RESYNCED: the segment lies beyond them after a pause, and the flow goes on from its
 * sequence number (missed.h). UC_BEYOND_EDGE: drop the segment. */
static __always_inline enum uc_reason uc_keep_up(struct uc_flow *flow, struct uc_annex *annex,
						 const struct uc_segment *segment, __u64 now_ns)
{
	__u8 beyond = !uc_is_unguarded(flow, segment) && uc_is_beyond(flow, segment);

	if (!beyond && !uc_is_far(flow, segment))
		return UC_TRANSLATED;
	if (uc_may_go_on(flow, segment, now_ns)) {
		uc_go_on(flow, annex, segment->seq);
		return UC_RESYNCED;
	}
	return beyond ? UC_BEYOND_EDGE : UC_TRANSLATED;
}

/* Translates a segment of a known flow after its handshake's: neither a SYN nor a SYN-ACK. Returns
 * as uc_translate(), but never asks to remove the flow. */
static __always_inline enum uc_reason uc_translate_later(struct uc_flow *flow,
							 struct uc_annex *annex,
							 const struct uc_segment *segment,
							 __u64 now_ns, struct uc_edit *edit)
{
	enum uc_reason reason;

	*edit = uc_edit_none(segment);
	if (segment->flags & UC_RST)
		return uc_reset(flow, segment, now_ns, edit);
	if (flow->stage != UC_TRANSLATING)
		return uc_too_early(flow, segment, now_ns);
	if (segment->direction == UC_FROM_GUEST) {
		reason = uc_keep_up(flow, annex, segment, now_ns);
		uc_merge(reason, now_ns);
		if (uc_drops(reason))
			return reason;
		uc_from_guest(flow, annex, segment, now_ns, edit);
	} else {
		if (uc_is_unechoed(flow, segment))
			return UC_UNECHOED;
		reason = uc_to_guest(flow, annex, segment, now_ns, edit);
	}
	if (!(flow->bits & UC_FLOW_HELD))
		return reason;
	if (uc_only_echoes(flow))
		return UC_COARSE_WINDOW;
	return reason == UC_TRANSLATED ? UC_HELD : reason;
}

/*
 * Translates any segment but a SYN of a known flow. Returns what the platform must do:
 * UC_TRANSLATED, UC_RESYNCED, UC_HELD or UC_COARSE_WINDOW: write the edit. UC_NO_HANDSHAKE: pass
 * the segment, keep the flow. A reason of uc_drops(): drop the segment, which has changed nothing
 * in the flow. Any other reason: write the edit, remove the flow.
 */
static __always_inline enum uc_reason uc_translate(struct uc_flow *flow, struct uc_annex *annex,
						   const struct uc_segment *segment, __u64 now_ns,
						   struct uc_edit *edit)
{
	if ((segment->flags & (UC_SYN | UC_RST)) == UC_SYN)
		return uc_answer(flow, annex, segment, now_ns, edit);
	return uc_translate_later(flow, annex, segment, now_ns, edit);
}

/*
 * Handles a segment of the guest that is no SYN and belongs to no known flow: its handshake was not
 * seen whole. By a strict policy the flow of a data segment is held (strict.h), from the first ACK
 * on at the number that the peer acknowledges. Returns UC_HELD: enter the flow. A reason of
 * uc_drops(): drop the segment. UC_NO_HANDSHAKE: pass it.
 */
static __always_inline enum uc_reason uc_adopt(struct uc_flow *flow, struct uc_annex *annex,
					       const struct uc_policy *policy,
					       const struct uc_segment *segment, __u64 now_ns,
					       struct uc_edit *edit)
{
	*edit = uc_edit_none(segment);
	if (!uc_is_strict(policy) || segment->direction != UC_FROM_GUEST || segment->flags & UC_RST)
		return UC_NO_HANDSHAKE;
	if (segment->flags & UC_SYN)
		return UC_STRICT_NO_HANDSHAKE;
	if (!segment->payload_bytes)
		return UC_NO_HANDSHAKE;
	uc_begin(flow, annex, policy, segment, now_ns);
	flow->bits = UC_FLOW_UNSURE | UC_FLOW_HELD | UC_FLOW_ADOPTED;
	uc_set_way(flow, UC_WAY_NONE);
	uc_set_handshake(flow, 0, 1); /* the scale is unknown: options are those of SYNs */
	flow->mss_agreed_bytes = UC_MSS_ADOPTED_BYTES;
	flow->mss_bytes = uc_max(uc_wire_bytes(flow, segment), UC_MSS_MIN_BYTES);
	uc_scale_guest_window(flow, UC_WSCALE_MAX);
	flow->snd_nxt = flow->snd_una;
	flow->echoed_ack = segment->ack;
	flow->peer_nxt = segment->ack;
	flow->peer_window = UC_UNSCALED_MAX;
	uc_start(flow, annex);
	uc_hold_flow(flow, flow->snd_una);
	if (uc_is_beyond(flow, segment))
		return UC_BEYOND_EDGE;
	flow->snd_nxt = uc_segment_end(segment);
	flow->sent_tick = uc_tick(now_ns, UC_IDLE_TICK_SHIFT);
	return UC_HELD;
}

#endif
