/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The negotiation of ECN in SYN and SYN-ACK: what each end offers, and what the host changes.
 *
 * By default a guest that negotiates ECN passes unmodified. If policy says `translate`, such a
 * guest is treated as one without ECN (translations concatenate: vCC §2.4): its own offer leaves as
 * the host's would, ECE is cleared in the answer, and the peer's offer is cleared in the SYN, so
 * that the guest answers without ECN. A guest's own accurate ECN passes unmodified under either
 * policy, because its three bits have another meaning (RFC 9768 §3.1). Strict mode removes AE first
 * (strict.h), and then does as with `translate`. A peer's offer of accurate ECN is one of classic
 * ECN, too: the host agrees to that (RFC 9768 §3.1.2).
 *
 * An observed flow keeps what its ends agree on, with or without ECN. A law that doesn't use marks
 * offers no ECN and requires none. Law `coupled` offers it, and works without if the peer doesn't
 * agree.
 */
#ifndef UC_OFFER_H
#define UC_OFFER_H

#include "edit.h"
#include "feedback.h"
#include "flow.h"
#include "reason.h"
#include "segment.h"
#include "strict.h"

/* Returns why a flow can't be translated by the ECN bits of its SYN; UC_TRANSLATED if it can. */
static __always_inline enum uc_reason uc_unfit(const struct uc_policy *policy,
					       const struct uc_segment *syn)
{
	if (syn->direction != UC_FROM_GUEST) {
		if (!uc_needs_ecn(policy))
			return UC_TRANSLATED;
		if (policy->modes & UC_MODE_NO_ECT)
			return UC_ECN_AVOIDED;
		return uc_classic_offers(syn) || uc_observes(policy) ? UC_TRANSLATED
								     : UC_PEER_REFUSED_ECN;
	}
	if (syn->options & UC_OPT_AE)
		return UC_GUEST_SPEAKS_ECN;
	if (uc_classic_offers(syn) && !uc_observes(policy) && !uc_translates_guest_ecn(policy))
		return UC_GUEST_SPEAKS_ECN;
	/* invariant "no false signal": nobody would clear the answer or echo the peer's marks */
	if (syn->blind && !uc_observes(policy) && uc_law_has(policy->law, UC_WANTS_ECN) &&
	    !uc_opens_blind(policy, syn))
		return UC_HALF_BLIND;
	return UC_TRANSLATED;
}

/* Options of a SYN or SYN-ACK that forbid translation. */
#define UC_FORBIDDEN (UC_OPT_SIGNED | UC_OPT_MPTCP)

/* Returns why the options of a SYN or SYN-ACK forbid translation; UC_TRANSLATED if they don't. */
static __always_inline enum uc_reason uc_forbidden(const struct uc_segment *segment)
{
	if (!(segment->options & UC_FORBIDDEN))
		return UC_TRANSLATED;
	return segment->options & UC_OPT_SIGNED ? UC_SIGNED : UC_MPTCP;
}

/* Returns why no flow is opened for this SYN; UC_TRANSLATED if one is. */
static __always_inline enum uc_reason uc_unwanted(const struct uc_policy *policy,
						  const struct uc_segment *syn)
{
	if (!uc_law_acts(policy->law))
		return UC_NO_POLICY;
	if (syn->options & UC_FORBIDDEN)
		return uc_forbidden(syn);
	return uc_unfit(policy, syn);
}

/* Sets the ECN bits of a SYN. `syns`: the number of a guest's SYN, from 1 on; unused for the
 * peer's. */
static __always_inline void uc_edit_syn(const struct uc_policy *policy, __u16 syns,
					const struct uc_segment *syn, struct uc_edit *edit)
{
	/* clearing two of accurate ECN's three bits would offer something else */
	if (uc_observes(policy) || syn->options & UC_OPT_AE)
		return;
	if (uc_translates_guest_ecn(policy))
		uc_clear_feedback(edit);
	if (syn->direction == UC_FROM_GUEST) {
		edit->ecn = UC_NOT_ECT; /* RFC 3168 §6.1.1: a SYN is not ECT */
		/* RFC 3168 §6.1.1.1: a SYN that got no answer may be repeated without the offer */
		if (uc_law_has(policy->law, UC_WANTS_ECN) && !(policy->modes & UC_MODE_NO_ECT) &&
		    (syns <= policy->ecn_syns || policy->ecn_syns == UC_ECN_SYNS_ALWAYS))
			uc_classic_offer(edit);
	} else if (uc_translates_guest_ecn(policy)) {
		edit->ecn = UC_NOT_ECT;
	}
}

#endif
