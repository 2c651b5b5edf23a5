/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The handshake: ask the network for ECN in the guest's name, hide the answer from the guest, learn
 * the options that the rest needs (window scale, segment size, SACK, timestamps).
 *
 * Guest connects:   SYN + ECE,CWR →  ;  ← SYN-ACK − ECE      (RFC 3168 §6.1.1)
 * Guest accepts:    ← SYN as it is   ;  SYN-ACK + ECE →
 *
 * A guest that answers for itself (ECE in its own SYN or SYN-ACK) speaks ECN and is left alone.
 * Unless policy says otherwise: offer.h.
 */
#ifndef UC_HANDSHAKE_H
#define UC_HANDSHAKE_H

#include "echo.h"
#include "edit.h"
#include "flow.h"
#include "guard.h"
#include "laws/ecn.h"
#include "mss.h"
#include "offer.h"
#include "reason.h"
#include "reopen.h"
#include "window.h"

/* The flow is the one that this SYN opens, its home's `share` apart. syns: the guest's, with it;
 * asked: an earlier one of them asked for ECN. */
static __always_inline void uc_begin(struct uc_flow *flow, const struct uc_policy *policy,
				     const struct uc_segment *syn, __u8 syns, __u8 asked,
				     __u64 now_ns)
{
	__u8 from_guest = syn->direction == UC_FROM_GUEST, offered;
	struct uc_flow fresh = {};

	*flow = fresh;
	flow->policy = *policy;
	flow->seen_ns = now_ns;
	flow->stage = from_guest ? UC_SYN_SENT : UC_SYN_RECEIVED;
	flow->syns = syns;
	flow->mss_bytes = uc_offered_mss_bytes(syn);
	flow->wscale = syn->wscale;
	if (syn->options & UC_OPT_WSCALE)
		flow->bits |= UC_FLOW_WSCALE;
	if (syn->options & UC_OPT_SACK)
		flow->bits |= UC_FLOW_SACK;
	if (syn->options & UC_OPT_TIMESTAMPS)
		flow->bits |= UC_FLOW_TIMESTAMPS;
	/* a host asks for it by policy; who is observed, by itself, in one of its SYNs */
	offered = from_guest && !policy->observe ? 1 : uc_asks_for_ecn(syn);
	if (uc_law_wants_ecn(policy) && (offered || asked) && !(syn->options & UC_OPT_AE))
		flow->bits |= UC_FLOW_ECN;
	if (from_guest) {
		flow->timed_ns = now_ns;
		flow->snd_una = syn->seq;
		flow->snd_nxt = uc_segment_end(syn);
	} else {
		uc_echo_learn(flow, syn);
		flow->edge = syn->window; /* from where, the guest's answer tells */
		flow->echoed_ack = syn->seq + 1;
	}
}

/*
 * A SYN, from either end. flow: zeroed, or what was known of these addresses and ports before.
 * UC_TRANSLATED: enter the flow, or go on with it. UC_NO_HANDSHAKE: the segment passes, what was
 * known stays. Any other reason: there is no flow to keep.
 */
static __always_inline enum uc_reason uc_open(struct uc_flow *flow, const struct uc_policy *policy,
					      const struct uc_segment *segment, __u64 now_ns,
					      struct uc_edit *edit)
{
	__u8 from_guest = segment->direction == UC_FROM_GUEST;
	__u8 again = flow->syns && flow->stage == UC_SYN_SENT && flow->snd_una == segment->seq;
	__u8 syns = again ? flow->syns + (flow->syns < 255) : 1;
	__u8 asked = again && flow->bits & UC_FLOW_ECN;
	enum uc_reason reason;

	*edit = uc_edit_none(segment);
	if (uc_is_live(flow, now_ns))
		return uc_syn_into_live(flow, policy, segment, now_ns, edit);
	/* A simultaneous open has two SYNs and two answers: too rare to be worth a state. */
	if (flow->stage == UC_SYN_SENT && flow->syns && !from_guest)
		return UC_SIMULTANEOUS_OPEN;
	reason = uc_unwanted(policy, segment);
	if (reason != UC_TRANSLATED)
		return reason;
	uc_begin(flow, policy, segment, syns, asked, now_ns);
	uc_edit_syn(policy, syns, segment, edit);
	return UC_TRANSLATED;
}

/*
 * A SYN-ACK of a known flow, before uc_answer(). UC_NO_HANDSHAKE: the flow goes on. UC_TRANSLATED:
 * it answers a SYN that was kept, the flow has begun anew with that, and the home has to do as for
 * one that uc_open() has entered. Any other reason: write the edit, forget the flow.
 */
static __always_inline enum uc_reason uc_reopen(struct uc_flow *flow,
						const struct uc_policy *policy,
						const struct uc_segment *answer, __u64 now_ns,
						struct uc_edit *edit)
{
	struct uc_segment syn;
	enum uc_reason reason;
	__u32 since_us;
	__u8 syns;

	*edit = uc_edit_none(answer);
	if (!uc_answers_kept(flow, answer))
		return UC_NO_HANDSHAKE;
	syn = uc_kept_segment(flow);
	reason = uc_unwanted(policy, &syn);
	if (reason != UC_TRANSLATED) {
		/* Law 6: policy may have changed since the host asked in the guest's name */
		if (syn.direction == UC_FROM_GUEST && !uc_asks_for_ecn(&syn) && !policy->observe)
			edit->flags &= ~(UC_ECE | UC_CWR);
		return reason;
	}
	since_us = (__u32)(now_ns / 1000) - uc_kept(flow)->at_us;
	syns = syn.direction == UC_FROM_GUEST ? syn.window : 1;
	uc_begin(flow, policy, &syn, syns, 0, now_ns);
	/* two CPUs' clocks may differ by a little */
	if (syn.direction == UC_FROM_GUEST && (__s32)since_us > 0)
		flow->timed_ns = now_ns - (__u64)since_us * 1000;
	return UC_TRANSLATED;
}

/* Both ends' options are known: settle what holds for the flow, and start the law. */
static __always_inline void uc_agree(struct uc_flow *flow, const struct uc_segment *answer)
{
	__u16 mss_bytes = uc_offered_mss_bytes(answer);

	if (mss_bytes > flow->mss_bytes)
		mss_bytes = flow->mss_bytes;
	/* RFC 7323 §2.2: scaling only if both offer it; it is the peer's windows that we read */
	if (!(answer->options & UC_OPT_WSCALE) || !(flow->bits & UC_FLOW_WSCALE))
		flow->wscale = 0;
	else if (answer->direction == UC_TO_GUEST)
		flow->wscale = answer->wscale;
	if (flow->wscale > UC_WSCALE_MAX)
		flow->wscale = UC_WSCALE_MAX;
	if (!(answer->options & UC_OPT_SACK))
		flow->bits &= ~UC_FLOW_SACK;
	if (!(answer->options & UC_OPT_TIMESTAMPS))
		flow->bits &= ~UC_FLOW_TIMESTAMPS;
	if (flow->bits & UC_FLOW_TIMESTAMPS)
		mss_bytes -= UC_TIMESTAMPS_BYTES;
	flow->mss_bytes = mss_bytes;
	/* who answers in the guest's name is the host; of a law that needs no ECN, the peer may
	 * have refused it */
	if ((!uc_agrees_to_ecn(answer) || answer->options & UC_OPT_AE) &&
	    (flow->policy.observe || answer->direction == UC_TO_GUEST))
		flow->bits &= ~UC_FLOW_ECN;
	flow->stage = UC_TRANSLATING;
	/* the guest's SYN or SYN-ACK was the segment before una: no retransmission can equal it */
	flow->retransmitted_seq = flow->snd_una - 1;
	flow->resent_end = flow->snd_una;
	flow->runt_seq = flow->snd_una;
	uc_law_open(flow);
}

/* Where one unit of the window is more than a segment, no window can hold the guest to a few of
 * them: what is in flight rounds up to a unit, and the guest refills it with every ACK. */
static __always_inline __u8 uc_is_coarse(const struct uc_flow *flow)
{
	return 1U << (flow->wscale & 15) > flow->mss_bytes;
}

/* A SYN-ACK from the network. Any return but UC_TRANSLATED and UC_NO_HANDSHAKE: forget the flow. */
static __always_inline enum uc_reason
uc_answer_to_guest(struct uc_flow *flow, const struct uc_segment *segment, struct uc_edit *edit)
{
	enum uc_reason reason = uc_forbidden(segment);
	__u8 observe = flow->policy.observe;

	if (flow->stage == UC_SYN_RECEIVED)
		return UC_SIMULTANEOUS_OPEN;
	if (flow->stage == UC_SYN_SENT) {
		/* not an answer to this SYN: the guest will reset it, and then try again */
		if (segment->ack - flow->snd_una - 1 > uc_flight_bytes(flow) - 1)
			return UC_NO_HANDSHAKE;
		/* Law 6: refused or garbled, the guest never asked and sees nothing of it. */
		if (!observe)
			edit->flags &= ~(UC_ECE | UC_CWR);
		if (reason != UC_TRANSLATED)
			return reason;
		if (uc_law_needs_ecn(&flow->policy) &&
		    ((!uc_agrees_to_ecn(segment) && !observe) || segment->options & UC_OPT_AE))
			return UC_PEER_REFUSED_ECN;
		/* data in the SYN that the peer didn't take will be sent again, as new */
		flow->snd_una = segment->ack;
		flow->snd_nxt = segment->ack;
		flow->echoed_ack = uc_segment_end(segment);
		flow->bits |= UC_FLOW_ANSWERED;
		uc_agree(flow, segment);
		/* the first round-trip time; RFC 6298 §3: not of a SYN that was sent twice */
		if (flow->syns == 1)
			uc_sample_rtt(flow, uc_since_ns(flow->seen_ns, flow->timed_ns));
		if (uc_is_coarse(flow) && !observe)
			return UC_COARSE_WINDOW;
	}
	uc_echo_learn(flow, segment);
	if (!observe) {
		edit->flags &= ~(UC_ECE | UC_CWR);
		edit->ecn = UC_NOT_ECT;
		edit->window = uc_first_window(flow, segment);
	}
	/* a repeated or forged one in the middle of the flow gives the guest no window */
	if (flow->snd_una != segment->ack || flow->snd_nxt != segment->ack)
		return UC_TRANSLATED;
	/* kept in the scale of the ACKs that will be compared with them */
	flow->peer_window = uc_units_up(segment->window, flow->wscale);
	flow->given_window = observe ? flow->peer_window : edit->window >> flow->wscale;
	uc_give(flow, segment->ack + edit->window);
	return UC_TRANSLATED;
}

/* A SYN-ACK of the guest. Returns as uc_answer_to_guest(). */
static __always_inline enum uc_reason
uc_answer_from_guest(struct uc_flow *flow, const struct uc_segment *segment, struct uc_edit *edit)
{
	enum uc_reason reason = uc_forbidden(segment);
	__u8 observe = flow->policy.observe;

	if (flow->stage == UC_SYN_SENT || flow->bits & UC_FLOW_GUEST_ASKED)
		return UC_SIMULTANEOUS_OPEN;
	if (flow->stage == UC_SYN_RECEIVED) {
		if (reason != UC_TRANSLATED)
			return reason;
		if ((segment->flags & (UC_ECE | UC_CWR) && !observe) ||
		    segment->options & UC_OPT_AE)
			return UC_GUEST_SPEAKS_ECN;
		flow->snd_una = segment->seq + 1;
		flow->snd_nxt = uc_segment_end(segment);
		/* RFC 7413 §3: who has taken data from the SYN may send into the SYN's window,
		 * everybody else waits for an ACK that gives another */
		flow->edge += flow->snd_una;
		if (segment->ack != flow->echoed_ack)
			uc_give(flow, flow->edge);
		flow->echoed_ack = segment->ack;
		uc_agree(flow, segment);
		if (uc_is_coarse(flow) && !observe)
			return UC_COARSE_WINDOW;
	}
	if (observe || !(flow->bits & UC_FLOW_ECN))
		return UC_TRANSLATED;
	/* RFC 3168 §6.1.1: an ECN-setup SYN-ACK has ECE and not CWR, and is not ECT; in law `dctcp`
	 * it is (RFC 8257 §3.6), where a SYN is not: classic listeners refuse one that is */
	edit->flags = (edit->flags & ~UC_CWR) | UC_ECE;
	edit->ecn = uc_law_marks_all(flow) ? UC_ECT0 : UC_NOT_ECT;
	return UC_TRANSLATED;
}

/* A SYN-ACK of a known flow. Returns as uc_translate(). */
static __always_inline enum uc_reason uc_answer(struct uc_flow *flow,
						const struct uc_segment *segment, __u64 now_ns,
						struct uc_edit *edit)
{
	*edit = uc_edit_none(segment);
	flow->seen_ns = now_ns;
	return segment->direction == UC_FROM_GUEST ? uc_answer_from_guest(flow, segment, edit)
						   : uc_answer_to_guest(flow, segment, edit);
}

#endif
