/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Cuts: what a law learns from echoed marks, and what a reduction on them leaves of the window. The
 * machine (reno.h, delay.h) decides when to cut; a law's row in table.h says which cut it has.
 */
#ifndef UC_LAWS_CUT_H
#define UC_LAWS_CUT_H

#include "dctcp.h"
#include "half.h"

/* Declared before the machines of more/law.h, which may call them; defined below. */
static __always_inline __u32 uc_cut_remains(const struct uc_flow *flow, __u32 window);
static __always_inline __u32 uc_cut_least(const struct uc_flow *flow);

#ifdef UC_MORE_LAWS
#include "delay.h"
#include "reno_linux.h"
#include "reno_rfc.h"
/* Included last, so that it may use all headers above. */
#if __has_include("more/law.h")
#include "more/law.h"
#endif
#endif

/* Starts the cut's state: both ends have agreed, and no data was sent yet. */
static __always_inline void uc_cut_open(struct uc_flow *flow)
{
	switch (uc_cut_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_CUT_##name:                                                                        \
		uc_##name##_open(flow);                                                            \
		break;
		UC_CUTS(UC_CASE)
#undef UC_CASE
	}
}

/* Updates the cut's state from an ACK, which may echo marks. */
static __always_inline void uc_cut_observe(struct uc_flow *flow, const struct uc_sample *sample)
{
	switch (uc_cut_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_CUT_##name:                                                                        \
		uc_##name##_observe(flow, sample);                                                 \
		break;
		UC_CUTS(UC_CASE)
#undef UC_CASE
	}
}

/* Returns what a cut leaves of a window, in the window's own unit. */
static __always_inline __u32 uc_cut_remains(const struct uc_flow *flow, __u32 window)
{
	switch (uc_cut_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_CUT_##name:                                                                        \
		return uc_##name##_remains(flow, window);
		UC_CUTS(UC_CASE)
#undef UC_CASE
	}
	return uc_half_remains(flow, window);
}

/* Returns the smallest window that a cut leaves, in segments. */
static __always_inline __u32 uc_cut_least(const struct uc_flow *flow)
{
	switch (uc_cut_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_CUT_##name:                                                                        \
		return uc_##name##_least(flow);
		UC_CUTS(UC_CASE)
#undef UC_CASE
	}
	return uc_half_least(flow);
}

/* Returns the number that `uc explain` shows for a cut, in the cut's own unit: α × 2^30 for
 * `dctcp`, the smoothed round-trip time in µs for `half`. */
static __always_inline __u32 uc_cut_signal(const struct uc_flow *flow)
{
	switch (uc_cut_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_CUT_##name:                                                                        \
		return uc_##name##_signal(flow);
		UC_CUTS(UC_CASE)
#undef UC_CASE
	}
	return uc_half_signal(flow);
}

#endif
