/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The offer of ECN: what the two ends say of it in their handshake, and what of that goes on.
 *
 * As a rule a guest that speaks ECN is left alone. If policy says translate, translations
 * concatenate (vCC §2.4), and such a guest is made one that doesn't: its own offer leaves as the
 * host's would, ECE is taken off the answer as ever; and the peer's offer is taken off the SYN, so
 * that the guest answers plainly. Accurate ECN is left alone by either policy: its three bits mean
 * something else (RFC 9768 §3.1).
 *
 * A flow that is only observed keeps what its ends agree on, with ECN or without. A law that has no
 * use for marks makes no offer, and needs none of the peer; law `coupled` makes one, and goes on
 * without where the peer makes none.
 */
#ifndef UC_OFFER_H
#define UC_OFFER_H

#include "edit.h"
#include "flow.h"
#include "laws/ecn.h"
#include "reason.h"
#include "segment.h"

static __always_inline __u8 uc_asks_for_ecn(const struct uc_segment *syn)
{
	return (syn->flags & (UC_ECE | UC_CWR)) == (UC_ECE | UC_CWR);
}

/* RFC 3168 §6.1.1: an ECN-setup SYN-ACK has ECE and not CWR. */
static __always_inline __u8 uc_agrees_to_ecn(const struct uc_segment *syn_ack)
{
	return (syn_ack->flags & (UC_ECE | UC_CWR)) == UC_ECE;
}

static __always_inline __u8 uc_translates_guest_ecn(const struct uc_policy *policy)
{
	return policy->guest_ecn == UC_GUEST_ECN_TRANSLATE && !policy->observe;
}

/* Why what a SYN says of ECN keeps its flow out; UC_TRANSLATED if it doesn't. */
static __always_inline enum uc_reason uc_unfit(const struct uc_policy *policy,
					       const struct uc_segment *syn)
{
	if (syn->direction != UC_FROM_GUEST) {
		if (!uc_law_needs_ecn(policy))
			return UC_TRANSLATED;
		if (syn->options & UC_OPT_AE)
			return UC_PEER_REFUSED_ECN;
		return uc_asks_for_ecn(syn) || policy->observe ? UC_TRANSLATED
							       : UC_PEER_REFUSED_ECN;
	}
	if (syn->options & UC_OPT_AE)
		return UC_GUEST_SPEAKS_ECN;
	if (!uc_asks_for_ecn(syn) || policy->observe || uc_translates_guest_ecn(policy))
		return UC_TRANSLATED;
	return UC_GUEST_SPEAKS_ECN;
}

/* Why a SYN or SYN-ACK of either end forbids translation; UC_TRANSLATED if nothing does. */
static __always_inline enum uc_reason uc_forbidden(const struct uc_segment *segment)
{
	if (segment->options & UC_OPT_SIGNED)
		return UC_SIGNED;
	if (segment->options & UC_OPT_MPTCP)
		return UC_MPTCP;
	return UC_TRANSLATED;
}

/* Why there is to be no flow for this SYN; UC_TRANSLATED if there is. */
static __always_inline enum uc_reason uc_unwanted(const struct uc_policy *policy,
						  const struct uc_segment *syn)
{
	enum uc_reason reason = uc_forbidden(syn);

	if (policy->law == UC_LAW_PASS)
		return UC_NO_POLICY;
	return reason != UC_TRANSLATED ? reason : uc_unfit(policy, syn);
}

/* What of a SYN's ECN goes on; of the guest's SYNs it is the one of that number, from 1 on. */
static __always_inline void uc_edit_syn(const struct uc_policy *policy, __u16 syns,
					const struct uc_segment *syn, struct uc_edit *edit)
{
	/* one of accurate ECN's three bits left would be an offer of something else */
	if (policy->observe || syn->options & UC_OPT_AE)
		return;
	if (uc_translates_guest_ecn(policy))
		edit->flags &= ~(UC_ECE | UC_CWR);
	if (syn->direction == UC_FROM_GUEST) {
		edit->ecn = UC_NOT_ECT; /* RFC 3168 §6.1.1: a SYN is not ECT */
		/* RFC 3168 §6.1.1.1: a SYN that got no answer may be repeated without the offer */
		if (uc_law_wants_ecn(policy) &&
		    (syns <= policy->ecn_syns || policy->ecn_syns == UC_ECN_SYNS_ALWAYS))
			edit->flags |= UC_ECE | UC_CWR;
	} else if (uc_translates_guest_ecn(policy)) {
		edit->ecn = UC_NOT_ECT;
	}
}

#endif
