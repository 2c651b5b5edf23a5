/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The only assumption that proofs make about a flow: it is sound (core/sound.h). It is no promise of
 * the platforms. open.c proves that it holds after the first SYN; open.c, translate.c and share.c that
 * each call keeps it, and alpha.c so for uc_is_fraction().
 */
#ifndef UC_PROOF_STATE_H
#define UC_PROOF_STATE_H

#include "proof.h"
#include "sound.h"

/* Returns whether the law is DCTCP, or another one with its cut. */
static __u8 has_fraction(void)
{
	return uc_cut_of(PROOF_LAW) == UC_CUT_dctcp;
}

/* Sets the law and the profile that this proof is compiled for. As constants they spare CBMC the
 * other laws. */
static void set_law(struct uc_policy *policy)
{
	policy->law = PROOF_LAW;
	policy->profile = PROOF_PROFILE;
}

/* Returns whether the flow is of that law and profile. */
static __u8 is_law(const struct uc_policy *policy)
{
	return policy->law == PROOF_LAW && policy->profile == PROOF_PROFILE;
}

/* Returns whether a flow of that law and profile is sound, but for DCTCP's estimate. */
static __u8 is_sound(const struct uc_flow *flow)
{
	return is_law(&flow->policy) && (uc_is_asking(flow) || uc_is_agreed(flow));
}

/* The annex of the flow that a proof is about. */
static struct uc_annex annex;

/* Returns an arbitrary flow of which the invariant holds, and sets its annex. */
static struct uc_flow sound_flow(void)
{
	struct uc_flow flow = any_flow();

	annex = any_annex();
	set_law(&flow.policy);
	assume(is_sound(&flow));
	assume(!has_fraction() || uc_is_fraction(&flow.dctcp));
	return flow;
}

#endif
