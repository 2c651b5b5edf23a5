/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the host removes from a SYN or SYN-ACK, so that neither end sees that the other offered it:
 *
 *   strict mode    what can't be translated: AccECN's AE and the MPTCP options (strict.h)
 *   by policy      window scaling, SACK, timestamps; with guest_ecn `translate`, AE from the peer's
 *
 * The flow is then as if the ends had offered the rest: their answers decide as always. A signed
 * segment (RFC 2385, RFC 5925) stays as it is, since the signature covers its options; so do those
 * of a flow that is only observed.
 */
#ifndef UC_DOWNGRADE_H
#define UC_DOWNGRADE_H

#include "edit.h"
#include "feedback/none.h"
#include "policy.h"
#include "reason.h"
#include "segment.h"
#include "strict.h"

#define UC_UNTRANSLATABLE (UC_OPT_AE | UC_OPT_MPTCP)

/* Returns the offers to remove from a SYN or SYN-ACK, UC_OPT_*. */
static __always_inline __u8 uc_withheld(const struct uc_policy *policy,
					const struct uc_segment *segment)
{
	/* a guest whose own ECN is not to be seen must not see the peer's (offer.h) */
	__u8 hides = uc_offers_accurate(segment) && uc_translates_guest_ecn(policy);

	return (uc_is_strict(policy) ? UC_UNTRANSLATABLE : 0) | (hides ? UC_OPT_AE : 0) |
	       (uc_observes(policy) ? 0 : (policy->modes & UC_WITHHELD_ANY) >> UC_WITHHELD_SHIFT);
}

/* Removes offers from a SYN or SYN-ACK. Returns the options removed, UC_OPT_*. */
static __always_inline __u8 uc_downgrade(const struct uc_policy *policy, struct uc_segment *segment)
{
	__u8 removed;

	/* without these uc_withheld() finds none */
	if (!(policy->modes & (UC_MODE_STRICT | UC_WITHHELD_ANY)) &&
	    !(segment->options & UC_OPT_AE))
		return 0;
	if (segment->options & UC_OPT_SIGNED)
		return 0;
	removed = segment->options & uc_withheld(policy, segment);
	segment->options &= ~removed;
	if (removed & UC_OPT_WSCALE)
		segment->wscale = 0;
	/* RFC 9768 §3.1.1: without AE a SYN still offers classic ECN; in a SYN-ACK the three bits
	 * are one number */
	if (removed & UC_OPT_AE && segment->flags & UC_ACK)
		segment->flags &= ~UC_FEEDBACK_FLAGS;
	return removed;
}

/* Returns the reason that a packet is counted by. It is `reason`, but in place of UC_TRANSLATED:
 * UC_DOWNGRADED if the edit removes what can't be translated, or UC_ACCURATE_ECN for a peer's SYN
 * with AccECN, which the host answers by classic ECN. */
static __always_inline enum uc_reason
uc_counted_as(enum uc_reason reason, const struct uc_segment *segment, const struct uc_edit *edit)
{
	if (reason != UC_TRANSLATED)
		return reason;
	if (edit->removed & UC_UNTRANSLATABLE)
		return UC_DOWNGRADED;
	return uc_offers_accurate(segment) ? UC_ACCURATE_ECN : reason;
}

#endif
