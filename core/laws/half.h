/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Cut `half` (RFC 3168): a mark takes half of the window, and nothing is learnt from it.
 */
#ifndef UC_LAWS_HALF_H
#define UC_LAWS_HALF_H

#include "../flow.h"
#include "../track.h"

static __always_inline void uc_half_open(struct uc_flow *flow)
{
	(void)flow;
}

/* Learns nothing: one echo means as much as any other. */
static __always_inline void uc_half_observe(struct uc_flow *flow, const struct uc_sample *sample)
{
	(void)flow;
	(void)sample;
}

/* Returns what a cut leaves of a window, in the window's own unit: RFC 3168 §6.1.2 halves it, where
 * RFC 5681 halves the flight on a loss. */
static __always_inline __u32 uc_half_remains(const struct uc_flow *flow, __u32 window)
{
	(void)flow;
	return window / 2;
}

/* Returns the floor of a cut in segments (RFC 5681 equation 4). */
static __always_inline __u32 uc_half_least(const struct uc_flow *flow)
{
	(void)flow;
	return 2;
}

/* Returns what `uc explain` tells about a cut: the smoothed round-trip time in microseconds. */
static __always_inline __u32 uc_half_signal(const struct uc_flow *flow)
{
	return flow->srtt_us >> 3;
}

#endif
