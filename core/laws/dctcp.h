/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Cut `dctcp` (RFC 8257): estimates the fraction of marked bytes, α, and cuts the window in
 * proportion to it. Growth (RFC 8257 §3.4) and the answer to losses (§3.5) stay NewReno's.
 *
 * Fixed point, so that all platforms and references compute the same: fractions have 30 bits, and
 * every quotient is rounded down. With the ten bits of the usual implementation an α below 2^s
 * units would never decay (a 64th at s = 4); with 30 bits it stops at (2^s − 1)/2^30.
 */
#ifndef UC_LAWS_DCTCP_H
#define UC_LAWS_DCTCP_H

#include "../flow.h"
#include "../track.h"
#include "reno_rfc.h"

#define UC_ALPHA_ONE_Q30 (1U << 30)
#define UC_BETA_ONE_Q7   128U

static __always_inline void uc_dctcp_open(struct uc_flow *flow)
{
	__u32 alpha_q7 = uc_min(flow->policy.parameters.dctcp.initial_alpha_q7, 128);

	flow->dctcp.alpha_q30 = alpha_q7 * (UC_ALPHA_ONE_Q30 / 128);
	flow->dctcp.window_end = flow->snd_una; /* RFC 8257 §3.3: initialised to SND.UNA */
}

/* Updates α by RFC 8257 §3.3, steps 1 to 8, on every ACK of new data, in recovery too. A duplicate
 * ACK acknowledges nothing (SACK options are ignored), so it has no weight. */
static __always_inline void uc_dctcp_observe(struct uc_flow *flow, const struct uc_sample *sample)
{
	struct uc_dctcp *dctcp = &flow->dctcp;
	__u8 shift = flow->policy.parameters.dctcp.gain_shift & 15;
	__u32 fraction_q30;

	if (!sample->acked_bytes)
		return;
	dctcp->acked_bytes += sample->acked_bytes;
	dctcp->marked_bytes += sample->marked_bytes;
	/* No window is larger. SND.UNA may have gone past window_end and half of the sequence
	 * numbers beyond it where the port has missed data (missed.h); without this limit the sums
	 * would wrap, and the divisor could be 0. */
	if (!uc_after(flow->snd_una, dctcp->window_end) && dctcp->acked_bytes < UC_WINDOW_MAX)
		return;
	/* M, the fraction of bytes that were marked */
	fraction_q30 = (__u32)(((__u64)dctcp->marked_bytes << 30) / dctcp->acked_bytes);
	/* DCTCP.Alpha = DCTCP.Alpha * (1 - g) + g * M; stays within 0 to 1 */
	dctcp->alpha_q30 = dctcp->alpha_q30 - (dctcp->alpha_q30 >> shift) + (fraction_q30 >> shift);
	dctcp->window_end = flow->snd_nxt;
	dctcp->acked_bytes = 0;
	dctcp->marked_bytes = 0;
}

/*
 * Returns what a cut leaves of a window, in the window's own unit. RFC 8257 §3.3 step 9 with
 * AC/DC's priority (SIGCOMM 2016, equation 1): cut by α − αβ/2, which is α/2 for β = 1.
 */
static __always_inline __u32 uc_dctcp_remains(const struct uc_flow *flow, __u32 window)
{
	__u32 beta_q7 = uc_min(flow->policy.parameters.dctcp.beta_q7, UC_BETA_ONE_Q7);
	/* α(1 − β/2) = α(256 − β_q7)/256, doubled by its 31 fraction bits: exactly α for β = 1 */
	__u32 cut_q31 = (__u32)((__u64)flow->dctcp.alpha_q30 * (256 - beta_q7) >> 7);

	return window - (__u32)((__u64)window * cut_q31 >> 31);
}

/* Returns the floor of a cut in segments. */
static __always_inline __u32 uc_dctcp_least(const struct uc_flow *flow)
{
	return uc_max(flow->policy.parameters.dctcp.minimum_window_segments, 1);
}

/* Returns what `uc explain` tells about a cut: α. */
static __always_inline __u32 uc_dctcp_signal(const struct uc_flow *flow)
{
	return flow->dctcp.alpha_q30;
}

#endif
