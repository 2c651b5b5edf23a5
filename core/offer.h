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

/* What of a SYN's ECN goes on. */
static __always_inline void uc_edit_syn(const struct uc_flow *flow, const struct uc_segment *syn,
					struct uc_edit *edit)
{
	const struct uc_policy *policy = &flow->policy;

	/* one of accurate ECN's three bits left would be an offer of something else */
	if (policy->observe || syn->options & UC_OPT_AE)
		return;
	if (uc_translates_guest_ecn(policy))
		edit->flags &= ~(UC_ECE | UC_CWR);
	if (syn->direction == UC_FROM_GUEST) {
		edit->ecn = UC_NOT_ECT; /* RFC 3168 §6.1.1: a SYN is not ECT */
		/* RFC 3168 §6.1.1.1: a SYN that got no answer may be repeated without the offer */
		if (uc_law_wants_ecn(policy) &&
		    (flow->syns <= policy->ecn_syns || policy->ecn_syns == UC_ECN_SYNS_ALWAYS))
			edit->flags |= UC_ECE | UC_CWR;
	} else if (uc_translates_guest_ecn(policy)) {
		edit->ecn = UC_NOT_ECT;
	}
}

/* A SYN out of the network into a live connection. It passes, being perhaps forged (RFC 5961 §4),
 * or a repetition of the first one: a guest to which that came without its offer of ECN, and which
 * keeps no state of its answers (SYN cookies), must see this one without it, too. */
static __always_inline enum uc_reason
uc_syn_into_live(const struct uc_flow *flow, const struct uc_segment *syn, struct uc_edit *edit)
{
	if (!uc_translates_guest_ecn(&flow->policy) || syn->options & UC_OPT_AE)
		return UC_NO_HANDSHAKE;
	edit->flags &= ~(UC_ECE | UC_CWR);
	edit->ecn = UC_NOT_ECT;
	return UC_TRANSLATED;
}

#endif
