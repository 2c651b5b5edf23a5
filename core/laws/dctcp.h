/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Law `dctcp`, RFC 8257: ECN's machine with a cut as deep as the fraction of marked bytes. It adds
 * the estimate of that fraction to either profile of the shadow; loss stays NewReno's (RFC 8257
 * §3.4).
 *
 * Fixed point, so that every home and every reference computes the same: a fraction is in 1/65536
 * and every quotient is rounded down.
 */
#ifndef UC_LAWS_DCTCP_H
#define UC_LAWS_DCTCP_H

#include "../flow.h"
#include "../track.h"
#include "reno_rfc.h"

#define UC_ALPHA_ONE_Q16 65536U
#define UC_BETA_ONE_Q7   128U

static __always_inline void uc_dctcp_open(struct uc_flow *flow)
{
	__u32 alpha_q7 = uc_min(flow->policy.initial_alpha_q7, 128);

	flow->dctcp.alpha_q16 = alpha_q7 * (UC_ALPHA_ONE_Q16 / 128);
	flow->dctcp.window_end = flow->snd_una; /* RFC 8257 §3.3: initialised to SND.UNA */
}

/* RFC 8257 §3.3, steps 1 to 8: every ACK of new data, in recovery too. */
static __always_inline void uc_dctcp_observe(struct uc_flow *flow, const struct uc_ack *ack)
{
	struct uc_dctcp *dctcp = &flow->dctcp;
	__u8 shift = flow->policy.gain_shift & 15;
	__u32 fraction_q16;

	if (!ack->acked_bytes)
		return;
	dctcp->acked_bytes += ack->acked_bytes;
	if (ack->ece)
		dctcp->marked_bytes += ack->acked_bytes;
	if (!uc_after(flow->snd_una, dctcp->window_end))
		return;
	/* M, the fraction of bytes that were marked */
	fraction_q16 = (__u32)(((__u64)dctcp->marked_bytes << 16) / dctcp->acked_bytes);
	/* DCTCP.Alpha = DCTCP.Alpha * (1 - g) + g * M; stays within 0 … 1 by itself */
	dctcp->alpha_q16 = dctcp->alpha_q16 - (dctcp->alpha_q16 >> shift) + (fraction_q16 >> shift);
	dctcp->window_end = flow->snd_nxt;
	dctcp->acked_bytes = 0;
	dctcp->marked_bytes = 0;
}

/*
 * What a cut leaves of a window, in the window's own unit. RFC 8257 §3.3 step 9 with AC/DC's
 * priority (SIGCOMM 2016, equation 1): cut by α − αβ/2, which is α/2 for β = 1.
 */
static __always_inline __u32 uc_dctcp_remains(const struct uc_flow *flow, __u32 cwnd)
{
	__u32 alpha_q16 = flow->dctcp.alpha_q16;
	__u32 cut_q16 = alpha_q16 - alpha_q16 * flow->policy.beta_q7 / (2 * UC_BETA_ONE_Q7);

	return cwnd - (__u32)((__u64)cwnd * cut_q16 >> 16);
}

#endif
