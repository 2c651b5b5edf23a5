/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What holds of a flow between two calls of the core: the only assumption that proofs make about a
 * flow. It is no promise of the platforms. open.c proves that it holds after the first SYN;
 * open.c, translate.c and share.c that each call keeps it, and alpha.c so for is_fraction().
 * All other fields are arbitrary.
 */
#ifndef UC_PROOF_STATE_H
#define UC_PROOF_STATE_H

#include "proof.h"

/* The smallest segment: the smallest MSS that counts, less the timestamps. */
#define MSS_LEAST_BYTES (UC_MSS_MIN_BYTES - UC_TIMESTAMPS_BYTES)

/* Returns whether DCTCP's sums count at most the bytes of the largest window: so they do not wrap
 * with the next ACK, and a fraction is not divided by 0. */
static __u8 is_counted(const struct uc_dctcp *dctcp)
{
	return dctcp->marked_bytes <= dctcp->acked_bytes && dctcp->acked_bytes < UC_WINDOW_MAX;
}

/* Returns whether DCTCP's α is at most 1. */
static __u8 is_fraction(const struct uc_dctcp *dctcp)
{
	return dctcp->alpha_q30 <= UC_ALPHA_ONE_Q30;
}

/* Returns whether a round-trip time was estimated from accepted samples. */
static __u8 is_timed(const struct uc_flow *flow)
{
	return flow->srtt_us <= UC_RTT_MAX_US << 3 && flow->rttvar_us <= UC_RTT_MAX_US << 2;
}

/* Returns whether the marks to echo are within the largest window of either sign. */
static __u8 is_echo(const struct uc_flow *flow)
{
	return flow->echo_owed_bytes >= -UC_WINDOW_MAX &&
	       flow->echo_owed_bytes <= UC_WINDOW_MAX / 2 + UC_WINDOW_MAX;
}

/* Returns whether the law is DCTCP, or another one with its cut. */
static __u8 has_fraction(void)
{
	return uc_cut_of(PROOF_LAW) == UC_CUT_dctcp;
}

/* Returns whether the flow waits for the answer to a SYN: only what the SYN says was set. */
static __u8 is_asking(const struct uc_flow *flow)
{
	if (flow->stage >= UC_TRANSLATING || flow->mss_bytes < UC_MSS_MIN_BYTES || flow->srtt_us ||
	    flow->rttvar_us || flow->echo_owed_bytes)
		return 0;
	return !has_fraction() ||
	       (!flow->dctcp.acked_bytes && !flow->dctcp.marked_bytes && !flow->dctcp.alpha_q30);
}

/* Returns whether both ends have agreed on the options. */
static __u8 is_agreed(const struct uc_flow *flow)
{
	if (flow->stage != UC_TRANSLATING || flow->mss_bytes < MSS_LEAST_BYTES ||
	    uc_wscale(flow) > UC_WSCALE_MAX || UC_GUEST_SCALE(flow->guest_window) > UC_WSCALE_MAX)
		return 0;
	return is_timed(flow) && is_echo(flow) && (!has_fraction() || is_counted(&flow->dctcp));
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

/* Returns whether the invariant holds of a flow in the table. */
static __u8 is_sound(const struct uc_flow *flow)
{
	return is_law(&flow->policy) && (is_asking(flow) || is_agreed(flow));
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
	assume(!has_fraction() || is_fraction(&flow.dctcp));
	return flow;
}

#endif
