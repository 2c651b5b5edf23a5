/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The handshake: asks the peer for ECN in the guest's name, hides the answer from the guest, and
 * learns the options that the other parts need (window scale, segment size, SACK, timestamps).
 *
 * Guest connects:   SYN + ECE,CWR →  ;  ← SYN-ACK − ECE      (RFC 3168 §6.1.1)
 * Guest accepts:    ← SYN as it is   ;  SYN-ACK + ECE →
 *
 * A guest that negotiates ECN itself (ECE in its own SYN or SYN-ACK) passes unmodified, unless
 * policy says otherwise (offer.h).
 *
 * The guest's own word ends no translation, because its SYNs and SYN-ACKs may never reach the peer.
 * If it sends several with different numbers, the peer's answer decides which one counts
 * (UC_FLOW_UNSURE). Several SYN-ACKs leave any ACK number open, also one that a stranger has
 * invented: the flow stays half-open until the guest goes on from the number that the peer has
 * acknowledged last. A simultaneous open (RFC 9293 §3.5) is the connection that the peer's SYN-ACK
 * confirms.
 */
#ifndef UC_HANDSHAKE_H
#define UC_HANDSHAKE_H

#include "distrust.h"
#include "downgrade.h"
#include "edit.h"
#include "feedback.h"
#include "flow.h"
#include "guard.h"
#include "laws/law.h"
#include "mss.h"
#include "offer.h"
#include "reason.h"
#include "reopen.h"
#include "window.h"

/* Initializes the flow from the SYN that opens it, as the first SYN of that end. The platform sets
 * `share` afterwards. */
static __always_inline void uc_begin(struct uc_flow *flow, struct uc_annex *annex,
				     const struct uc_policy *policy, const struct uc_segment *syn,
				     __u64 now_ns)
{
	__u8 from_guest = syn->direction == UC_FROM_GUEST;
	__u8 wants = uc_law_has(policy->law, UC_WANTS_ECN) * UC_WAY_CLASSIC;
	struct uc_coupled empty = {};
	struct uc_flow fresh = {};

	annex->coupled = empty; /* a law sets its own state when it opens */
	*flow = fresh;
	flow->policy = *policy;
	flow->seen_ns = now_ns;
	flow->stage = from_guest ? UC_SYN_SENT : UC_SYN_RECEIVED;
	flow->mss_bytes = uc_offered_mss_bytes(syn);
	flow->bits = uc_flow_offers(syn->options);
	uc_set_handshake(flow, syn->wscale, 1);
	if (from_guest) {
		/* the host asks by policy; an observed guest asks itself, in one of its SYNs. They
		 * may be answered for one before it, which asked before ECN was distrusted. */
		flow->feedback = wants & (!uc_observes(policy) | uc_classic_offers(syn));
		flow->timed_tick = uc_tick(now_ns, UC_RTT_TICK_SHIFT);
		flow->snd_una = syn->seq;
		flow->snd_nxt = syn->seq + 1 + syn->payload_bytes;
	} else {
		flow->feedback = wants & uc_classic_offers(syn) & !(policy->modes & UC_MODE_NO_ECT);
		uc_feedback_learn(flow, syn);
		flow->edge = syn->window; /* relative, until the guest's answer */
		flow->echoed_ack = syn->seq + 1;
		flow->peer_nxt = syn->seq + 1 + syn->payload_bytes;
	}
}

/* Handles a SYN of the guest while its earlier SYN waits for an answer. Returns as uc_open(). */
static __always_inline enum uc_reason uc_open_more(struct uc_flow *flow, struct uc_annex *annex,
						   const struct uc_policy *policy,
						   const struct uc_segment *syn, __u64 now_ns,
						   struct uc_edit *edit)
{
	__u8 asked = uc_has_feedback(flow), again = flow->snd_una == syn->seq;
	__u8 syns = again ? uc_syns(flow) + 1 : 1;
	__u32 unsure = again ? flow->bits & UC_FLOW_UNSURE : UC_FLOW_UNSURE;
	/* the peer may have answered the earlier one, and its answer says what that offered */
	__u32 earlier = again ? flow->bits & UC_FLOW_OFFERS : 0;
	__u8 wscale = uc_wscale(flow);

	if (uc_unwanted(policy, syn) != UC_TRANSLATED) {
		flow->bits |= unsure;
		return UC_NO_HANDSHAKE;
	}
	uc_begin(flow, annex, policy, syn, now_ns);
	flow->bits |= unsure | earlier;
	if (syn->options & UC_OPT_WSCALE || !(earlier & UC_FLOW_WSCALE))
		wscale = syn->wscale;
	uc_set_handshake(flow, wscale, syns);
	if (asked && uc_law_has(policy->law, UC_WANTS_ECN))
		uc_set_way(flow, UC_WAY_CLASSIC);
	uc_edit_syn(policy, syns, syn, edit);
	return UC_TRANSLATED;
}

/*
 * Handles a SYN from either end. `flow` is zeroed, or the flow known for these addresses and ports.
 * Returns UC_TRANSLATED: enter the flow, or keep it. UC_NO_HANDSHAKE: pass the segment, keep the
 * flow. A reason of uc_drops(): drop the segment, keep the flow if it was known. Any other reason:
 * there is no flow to keep.
 */
static __always_inline enum uc_reason uc_open(struct uc_flow *flow, struct uc_annex *annex,
					      const struct uc_policy *policy,
					      const struct uc_segment *segment, __u64 now_ns,
					      struct uc_edit *edit)
{
	__u8 from_guest = segment->direction == UC_FROM_GUEST;
	struct uc_segment syn = *segment;
	enum uc_reason reason;

	*edit = uc_edit_none(segment);
	edit->removed = uc_downgrade(policy, &syn);
	if (from_guest && uc_forbidden(&syn) != UC_TRANSLATED && uc_is_strict(policy))
		return uc_strict_reason(uc_forbidden(&syn));
	if (uc_stays(flow, &syn, now_ns))
		return uc_syn_into_live(flow, annex, policy, &syn, edit);
	if (from_guest && uc_waits(flow, now_ns) && uc_law_acts(policy->law))
		return uc_open_more(flow, annex, policy, &syn, now_ns, edit);
	reason = uc_unwanted(policy, &syn);
	if (reason != UC_TRANSLATED) {
		*edit = uc_edit_none(segment);
		return uc_verdict_of(uc_is_strict(policy), segment->direction, reason);
	}
	uc_edit_syn(policy, 1, &syn, edit);
	uc_begin(flow, annex, policy, &syn, now_ns);
	return UC_TRANSLATED;
}

/*
 * Checks whether a SYN-ACK of a known flow answers a later SYN, before uc_answer(). Returns
 * UC_NO_HANDSHAKE: it doesn't, and the flow goes on. UC_TRANSLATED: it answers the stored SYN; the
 * flow has started again with that SYN, and the platform must do what it does after uc_open(). A
 * reason of uc_drops(): drop it, keep the flow. Any other reason: write the edit, remove the flow.
 */
static __always_inline enum uc_reason uc_reopen(struct uc_flow *flow, struct uc_annex *annex,
						const struct uc_policy *policy,
						const struct uc_segment *answer, __u64 now_ns,
						struct uc_edit *edit)
{
	struct uc_segment syn;
	enum uc_reason reason;

	*edit = uc_edit_none(answer);
	if (!uc_answers_kept(flow, annex, answer))
		return UC_NO_HANDSHAKE;
	/* strict mode will drop it */
	if (uc_is_strict(policy) && answer->direction == UC_FROM_GUEST &&
	    answer->options & UC_OPT_SIGNED)
		return uc_strict_reason(UC_SIGNED);
	syn = uc_kept_segment(flow, annex);
	syn.blind = answer->blind;
	uc_downgrade(policy, &syn);
	reason = uc_unwanted(policy, &syn);
	if (reason != UC_TRANSLATED) {
		/* Invariant "no false signal": the host asked for ECN in the guest's name, before
		 * policy changed. */
		if (syn.direction == UC_FROM_GUEST && !uc_classic_offers(&syn) &&
		    !uc_observes(policy))
			uc_clear_feedback(edit);
		return uc_verdict_of(uc_is_strict(policy), answer->direction, reason);
	}
	uc_begin(flow, annex, policy, &syn, now_ns);
	if (syn.direction == UC_FROM_GUEST)
		uc_set_handshake(flow, syn.wscale, syn.window);
	else /* whether the guest's answer has reached the peer is still open */
		flow->bits |= UC_FLOW_UNSURE;
	/* when a stored SYN passed is not stored */
	flow->timed_tick = 0;
	return UC_TRANSLATED;
}

/* Starts the law at SND.UNA. */
static __always_inline void uc_start(struct uc_flow *flow, struct uc_annex *annex)
{
	flow->stage = UC_TRANSLATING;
	flow->bits &= ~UC_FLOW_RESENT;
	flow->resent_end = flow->snd_una;
	flow->runt_seq = flow->snd_una;
	uc_distrust_open(flow);
	uc_law_open(flow, annex);
}

/* Moves an unsure flow to the number that the peer acknowledges, and starts the law again if the
 * guest's data turn out to be elsewhere. An adopted flow (UC_FLOW_ADOPTED) is no longer unsure
 * then, since its guest's data have been seen. */
static __always_inline void uc_make_sure(struct uc_flow *flow, struct uc_annex *annex, __u32 ack)
{
	__u32 moved = ack - flow->snd_una;

	if (flow->bits & UC_FLOW_ADOPTED)
		flow->bits &= ~UC_FLOW_UNSURE;
	if (moved <= uc_flight_bytes(flow))
		return;
	flow->snd_una = ack;
	flow->snd_nxt = ack;
	flow->edge += moved;
	flow->furthest_edge += moved;
	uc_start(flow, annex);
}

/* Clears UC_FLOW_UNSURE if the guest goes on from the number that the peer has acknowledged: so the
 * guest has accepted that ACK. Bound: the guest's next data in order clear it. Until then the law
 * answers marks as always. */
static __always_inline void uc_agree_on_number(struct uc_flow *flow,
					       const struct uc_segment *segment)
{
	__u32 doubt = UC_FLOW_UNSURE | UC_FLOW_ANSWERED;

	if ((flow->bits & doubt) == doubt && segment->seq - flow->snd_una <= uc_flight_bytes(flow))
		flow->bits &= ~UC_FLOW_UNSURE;
}

/* Settles the flow's options from SYN and SYN-ACK, and starts the law. */
static __always_inline void uc_agree(struct uc_flow *flow, struct uc_annex *annex,
				     const struct uc_segment *answer)
{
	__u16 mss_bytes = uc_offered_mss_bytes(answer);
	__u8 guest_wscale = answer->wscale, wscale = uc_wscale(flow);

	if (mss_bytes > flow->mss_bytes)
		mss_bytes = flow->mss_bytes;
	/* RFC 7323 §2.2: windows are scaled only if both ends offer it */
	if (!(answer->options & UC_OPT_WSCALE) || !(flow->bits & UC_FLOW_WSCALE)) {
		wscale = 0;
		guest_wscale = 0;
	} else if (answer->direction == UC_TO_GUEST) {
		guest_wscale = wscale;
		wscale = answer->wscale;
	}
	uc_scale_guest_window(flow, guest_wscale);
	uc_set_handshake(flow, wscale, uc_syns(flow));
	if (!(answer->options & UC_OPT_SACK))
		flow->bits &= ~UC_FLOW_SACK;
	if (!(answer->options & UC_OPT_TIMESTAMPS))
		flow->bits &= ~UC_FLOW_TIMESTAMPS;
	if (flow->bits & UC_FLOW_TIMESTAMPS)
		mss_bytes -= UC_TIMESTAMPS_BYTES;
	flow->mss_bytes = mss_bytes;
	flow->mss_agreed_bytes = mss_bytes;
	/* The host agrees in the guest's name. The peer, or either end of an observed flow, may
	 * have refused ECN, which not every law needs. */
	if ((!uc_classic_agrees(answer) || answer->options & UC_OPT_AE) &&
	    (uc_observes(&flow->policy) || answer->direction == UC_TO_GUEST))
		uc_set_way(flow, UC_WAY_NONE);
	uc_start(flow, annex);
}

/* The largest scale whose unit, 1,024 bytes, is less than an ordinary segment of Ethernet. */
#define UC_WSCALE_FINE 10

/* Returns whether one unit of the scaled window is more than a segment. Then no window can limit
 * the guest to a few segments: its flight is rounded up to a unit, which it refills with every
 * ACK. */
static __always_inline __u8 uc_is_coarse(const struct uc_flow *flow)
{
	return 1U << uc_wscale(flow) > flow->mss_bytes;
}

/*
 * Holds a flow whose windows can't be written: their unit is more than a segment, or options of the
 * answer could not be read, of which one may be the scale. In strict mode drops limit the guest;
 * under a guard, too, if only its own small segments make the unit coarse. Otherwise nothing limits
 * it, and no guard drops: uc_only_echoes().
 */
static __always_inline void uc_hold_coarse(struct uc_flow *flow, const struct uc_segment *answer)
{
	if (uc_observes(&flow->policy) ||
	    (!uc_is_coarse(flow) && !(answer->options & UC_OPT_BROKEN)))
		return;
	flow->bits |= UC_FLOW_HELD;
	if (answer->options & UC_OPT_BROKEN)
		uc_scale_guest_window(flow, UC_WSCALE_MAX);
	if (uc_is_strict(&flow->policy) ||
	    (flow->policy.guard_segments && uc_wscale(flow) <= UC_WSCALE_FINE &&
	     !(answer->options & UC_OPT_BROKEN)))
		return;
	flow->policy.guard_segments = 0;
	flow->policy.modes |= UC_MODE_NO_ECT;
}

/* Returns whether a SYN-ACK to the guest answers the guest's SYN. In an established flow any
 * SYN-ACK counts, but in strict mode only a copy of the one with which the flow began. */
static __always_inline __u8 uc_is_answered_by(const struct uc_flow *flow,
					      const struct uc_segment *answer)
{
	if (flow->stage == UC_SYN_SENT)
		return flow->bits & UC_FLOW_UNSURE ||
		       answer->ack - flow->snd_una - 1 <= uc_flight_bytes(flow) - 1;
	return flow->stage == UC_TRANSLATING &&
	       (!uc_is_strict(&flow->policy) ||
		(answer->ack == flow->snd_una && uc_segment_end(answer) == flow->echoed_ack));
}

/* Handles a SYN-ACK from the network. Any return but UC_TRANSLATED and UC_NO_HANDSHAKE: remove the
 * flow. */
static __always_inline enum uc_reason uc_answer_to_guest(struct uc_flow *flow,
							 struct uc_annex *annex,
							 const struct uc_segment *segment,
							 __u64 now_ns, struct uc_edit *edit)
{
	enum uc_reason reason = uc_forbidden(segment);
	__u8 observe = uc_observes(&flow->policy);

	/* it answers no SYN that was seen: the guest will reset it and try again */
	if (!uc_is_answered_by(flow, segment))
		return uc_is_strict(&flow->policy) ? UC_STRICT_NO_HANDSHAKE : UC_NO_HANDSHAKE;
	if (flow->stage == UC_SYN_SENT) {
		flow->seen_ns = now_ns;
		/* Invariant "no false signal": the guest never asked for ECN, so it sees no answer,
		 * whether the peer agreed or not. */
		if (!observe)
			uc_clear_feedback(edit);
		if (reason != UC_TRANSLATED)
			return reason;
		if (uc_needs_ecn(&flow->policy) &&
		    ((!uc_classic_agrees(segment) && !observe) || segment->options & UC_OPT_AE))
			reason = flow->policy.modes & UC_MODE_NO_ECT ? UC_ECN_AVOIDED
								     : UC_PEER_REFUSED_ECN;
		if (!uc_classic_agrees(segment))
			uc_distrust_refused(flow);
		if (reason != UC_TRANSLATED)
			return reason;
		/* data in the SYN that the peer didn't accept are no new data when they come again
		 */
		if (!(flow->bits & UC_FLOW_UNSURE) && uc_before(segment->ack, flow->snd_nxt)) {
			flow->bits |= UC_FLOW_HOLE;
			flow->hole_seq = segment->ack;
		}
		flow->snd_una = segment->ack;
		flow->snd_nxt = segment->ack;
		flow->echoed_ack = uc_segment_end(segment);
		flow->peer_nxt = flow->echoed_ack;
		flow->bits |= UC_FLOW_ANSWERED;
		uc_feedback_learn(flow, segment);
		uc_agree(flow, annex, segment);
		/* the first round-trip time; not of a SYN that was sent twice (RFC 6298 §3) */
		if (uc_syns(flow) == 1 && flow->timed_tick && !(flow->bits & UC_FLOW_UNSURE))
			uc_sample_rtt(flow, uc_timed_ns(flow, now_ns));
		flow->bits &= ~UC_FLOW_UNSURE;
		uc_hold_coarse(flow, segment);
	}
	if (!observe) {
		uc_clear_feedback(edit);
		edit->ecn = UC_NOT_ECT;
	}
	if (!observe && !uc_only_echoes(flow))
		edit->window = uc_first_window(flow, segment);
	/* what the peer was promised is kept: its marks are answered */
	reason = uc_only_echoes(flow) ? UC_COARSE_WINDOW : UC_TRANSLATED;
	/* a repeated or forged SYN-ACK of an established flow advertises no window */
	if (flow->snd_una != segment->ack || flow->snd_nxt != segment->ack ||
	    flow->echoed_ack != uc_segment_end(segment))
		return reason;
	/* stored in the scale of the ACKs that are compared with them */
	flow->peer_window = uc_units_up(segment->window, uc_wscale(flow));
	flow->given_window = observe || reason != UC_TRANSLATED ? flow->peer_window
								: edit->window >> uc_wscale(flow);
	uc_give(flow, segment->ack + edit->window);
	return reason;
}

/* Handles a SYN-ACK of the guest. Returns as uc_answer_to_guest(). */
static __always_inline enum uc_reason uc_answer_from_guest(struct uc_flow *flow,
							   struct uc_annex *annex,
							   const struct uc_segment *segment,
							   struct uc_edit *edit)
{
	enum uc_reason reason = uc_forbidden(segment);
	__u8 observe = uc_observes(&flow->policy), strict = uc_is_strict(&flow->policy);

	/* half of a simultaneous open, which the peer's SYN-ACK confirms */
	if (flow->stage == UC_SYN_SENT)
		return UC_NO_HANDSHAKE;
	if (strict && reason != UC_TRANSLATED)
		return uc_strict_reason(reason);
	if (flow->stage == UC_TRANSLATING && segment->seq + 1 != flow->snd_una) {
		if (!(flow->bits & UC_FLOW_ANSWERED))
			flow->bits |= UC_FLOW_UNSURE;
		else if (strict)
			return UC_STRICT_NO_HANDSHAKE;
		else if (flow->bits & UC_FLOW_GUEST_ASKED)
			return UC_NO_HANDSHAKE;
	}
	if (strict)
		uc_clear_feedback(edit);
	if (flow->stage == UC_SYN_RECEIVED) {
		if (reason != UC_TRANSLATED)
			return reason;
		if ((uc_says_feedback(edit) && !observe) || segment->options & UC_OPT_AE)
			return UC_GUEST_SPEAKS_ECN;
		flow->snd_una = segment->seq + 1;
		flow->snd_nxt = uc_segment_end(segment);
		/* RFC 7413 §3: an end that accepted data from the SYN may send into the SYN's
		 * window; any other waits for an ACK with a new one */
		flow->edge += flow->snd_una;
		if (segment->ack != flow->echoed_ack)
			uc_give(flow, flow->edge);
		flow->echoed_ack = segment->ack;
		uc_agree(flow, annex, segment);
		/* the peer was promised nothing yet */
		uc_hold_coarse(flow, segment);
		if (uc_only_echoes(flow))
			uc_set_way(flow, UC_WAY_NONE);
	}
	if (uc_only_echoes(flow))
		return UC_COARSE_WINDOW;
	if (observe || !uc_has_feedback(flow))
		return UC_TRANSLATED;
	/* RFC 3168 §6.1.1: an ECN-setup SYN-ACK has ECE and no CWR, and is not ECT. With law
	 * `dctcp` it is ECT (RFC 8257 §3.6), but a SYN is not: classic listeners refuse an ECT
	 * SYN. */
	uc_classic_agree(edit);
	edit->ecn = uc_law_marks_all(flow) ? UC_ECT0 : UC_NOT_ECT;
	return UC_TRANSLATED;
}

/* Handles a SYN-ACK of a known flow. Returns as uc_translate(). */
static __always_inline enum uc_reason uc_answer(struct uc_flow *flow, struct uc_annex *annex,
						const struct uc_segment *segment, __u64 now_ns,
						struct uc_edit *edit)
{
	__u8 from_guest = segment->direction == UC_FROM_GUEST;
	struct uc_segment answer = *segment;
	enum uc_reason reason;

	*edit = uc_edit_none(segment);
	/* SYN with FIN and without ACK is neither a SYN nor a SYN-ACK */
	if (!(segment->flags & UC_ACK)) {
		reason = uc_verdict_of(uc_is_strict(&flow->policy), segment->direction,
				       UC_NO_HANDSHAKE);
	} else {
		edit->removed = uc_downgrade(&flow->policy, &answer);
		reason = from_guest ? uc_answer_from_guest(flow, annex, &answer, edit)
				    : uc_answer_to_guest(flow, annex, &answer, now_ns, edit);
	}
	if (from_guest && !uc_drops(reason))
		flow->seen_ns = now_ns;
	return reason;
}

/*
 * Begins a flow of the peer with its stored SYN, before uc_open() for a SYN of the guest on the
 * same ports: a simultaneous open, or a SYN by which the guest would mislead the port. `flow` is
 * zeroed. Returns 1 if it has begun, 0 if policy forbids it; then it is still zeroed. The platform
 * sets `share` at once.
 */
static __always_inline __u8 uc_begin_asked(struct uc_flow *flow, struct uc_annex *annex,
					   const struct uc_policy *policy,
					   const struct uc_kept_syn *kept, __u64 now_ns)
{
	struct uc_segment syn = uc_unpack_syn(kept, UC_TO_GUEST);

	uc_downgrade(policy, &syn);
	if (uc_unwanted(policy, &syn) != UC_TRANSLATED)
		return 0;
	uc_begin(flow, annex, policy, &syn, now_ns);
	return 1;
}

/*
 * Opens a flow of the peer at the guest's SYN-ACK, for a platform that stored the peer's SYN
 * outside the flow table: a SYN that the guest doesn't answer then costs no place there. `flow` is
 * zeroed. Returns as uc_open() and uc_answer() would have, one after the other; UC_NO_HANDSHAKE:
 * this SYN wasn't answered.
 */
static __always_inline enum uc_reason uc_open_asked(struct uc_flow *flow, struct uc_annex *annex,
						    const struct uc_policy *policy,
						    const struct uc_kept_syn *kept,
						    const struct uc_segment *answer, __u64 now_ns,
						    struct uc_edit *edit)
{
	struct uc_segment syn = uc_unpack_syn(kept, UC_TO_GUEST);
	enum uc_reason reason;

	*edit = uc_edit_none(answer);
	if (!uc_acknowledges_syn(kept, answer))
		return UC_NO_HANDSHAKE;
	syn.blind = answer->blind;
	uc_downgrade(policy, &syn);
	reason = uc_unwanted(policy, &syn);
	if (reason != UC_TRANSLATED)
		return uc_verdict_of(uc_is_strict(policy), answer->direction, reason);
	uc_begin(flow, annex, policy, &syn, now_ns);
	return uc_answer(flow, annex, answer, now_ns, edit);
}

#endif
