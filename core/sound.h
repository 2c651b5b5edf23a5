/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What holds of a flow between two calls of the core. The proofs assume nothing else of a flow, and
 * show that each call keeps it (base/core/proofs/). So a flow from another host for which
 * uc_is_sound() holds is as safe to translate as one that began here. All fields that are not named
 * may have any value.
 */
#ifndef UC_SOUND_H
#define UC_SOUND_H

#include "core.h"

/* The smallest segment: the smallest MSS that counts, less the timestamps. */
#define UC_MSS_LEAST_BYTES (UC_MSS_MIN_BYTES - UC_TIMESTAMPS_BYTES)

/* Returns whether the law keeps DCTCP's estimate. */
static __always_inline __u8 uc_has_alpha(const struct uc_flow *flow)
{
	return uc_cut_of(flow->policy.law) == UC_CUT_dctcp;
}

/* Returns whether DCTCP's estimate is at most 1. */
static __always_inline __u8 uc_is_fraction(const struct uc_dctcp *dctcp)
{
	return dctcp->alpha_q30 <= UC_ALPHA_ONE_Q30;
}

/* Returns whether DCTCP's sums count at most the bytes of the largest window: so they do not wrap
 * with the next ACK, and a fraction is not divided by 0. */
static __always_inline __u8 uc_is_counted(const struct uc_dctcp *dctcp)
{
	return dctcp->marked_bytes <= dctcp->acked_bytes && dctcp->acked_bytes < UC_WINDOW_MAX;
}

/* Returns whether the round-trip time was estimated from samples that were accepted. */
static __always_inline __u8 uc_is_timed(const struct uc_flow *flow)
{
	return flow->srtt_us <= UC_RTT_MAX_US << 3 && flow->rttvar_us <= UC_RTT_MAX_US << 2;
}

/* Returns whether echo_owed_bytes is in its range: -1 to 1.5 times the largest window. */
static __always_inline __u8 uc_is_echo(const struct uc_flow *flow)
{
	return flow->echo_owed_bytes >= -UC_WINDOW_MAX &&
	       flow->echo_owed_bytes <= UC_WINDOW_MAX / 2 + UC_WINDOW_MAX;
}

/* Returns whether the flow waits for the answer to a SYN, and only the fields that its SYN
 * determines are set. */
static __always_inline __u8 uc_is_asking(const struct uc_flow *flow)
{
	if (flow->stage >= UC_TRANSLATING || flow->mss_bytes < UC_MSS_MIN_BYTES || flow->srtt_us ||
	    flow->rttvar_us || flow->echo_owed_bytes)
		return 0;
	return !uc_has_alpha(flow) ||
	       (!flow->dctcp.acked_bytes && !flow->dctcp.marked_bytes && !flow->dctcp.alpha_q30);
}

/* Returns whether both ends have agreed on the options, and all numbers are in their ranges but
 * DCTCP's estimate: the proofs keep that apart, because of its division. */
static __always_inline __u8 uc_is_agreed(const struct uc_flow *flow)
{
	if (flow->stage != UC_TRANSLATING || flow->mss_bytes < UC_MSS_LEAST_BYTES ||
	    uc_wscale(flow) > UC_WSCALE_MAX || UC_GUEST_SCALE(flow->guest_window) > UC_WSCALE_MAX)
		return 0;
	return uc_is_timed(flow) && uc_is_echo(flow) &&
	       (!uc_has_alpha(flow) || uc_is_counted(&flow->dctcp));
}

/* Returns whether a flow is sound. */
static __always_inline __u8 uc_is_sound(const struct uc_flow *flow)
{
	return uc_law_acts(flow->policy.law) && flow->policy.profile <= UC_PROFILE_RFC &&
	       (uc_is_asking(flow) || uc_is_agreed(flow)) &&
	       (!uc_has_alpha(flow) || uc_is_fraction(&flow->dctcp));
}

#endif
