/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group whose window is the sum of what its flows' own laws make (vCC, SIGCOMM 2016, §4): beside
 * any law, divided by weight among the flows that have data in flight, and divided anew as they
 * come and go. `share` in policies and experiments.
 *
 * The weights divide the sum, and nothing else. So the sum has to be what it would be without
 * them, when each of n flows had the mean window W/n:
 *
 *   growth   ΣΔ: each flow grows as its law does, which doesn't depend on how large its window is
 *            (a segment in a round trip, or in slow start what was acknowledged)
 *   cut      W -= (W/n)·(1 - left): its law keeps so much of a window, and the mean one it is; W as
 *            it was before the first flow that the same event hit, since none of them hears of the
 *            others' cuts, and all at once halve it by halving theirs
 *
 * Cut by the flow's own part instead, W·w/Σw, and a group of one large and many small parts would
 * have the growth of all of them and the cuts of one: with loss p of each packet its sum is
 * √(2/(p·Σ(w/Σw)²)) times √n segments, a half of what four equal flows have if one has nearly all.
 * Keep a window for each flow beside the one that it is given, and let it hear the losses of the
 * latter: then the large part's goes to its floor under all the losses, the small ones' hear none
 * and grow without end, and the sum follows those. As it is, the sum is that of n equal flows,
 * √(2/p)·n, whatever the weights (p is small; the flows' losses are independent, or all one).
 *
 * Unlike one TCP, n of them lose at n times. Each one's law knows what it has answered, when it
 * may grow again; so here nothing of another's cut stands in its way. A law's floor is one of the
 * mean window, too. Who joins brings nothing: the sum stays, and grows by one flow more.
 */
#ifndef UC_COUPLING_SUM_H
#define UC_COUPLING_SUM_H

#include "group.h"

static __always_inline __u8 uc_ccc_is_sum(const struct uc_ccc *ccc)
{
	return ccc->policy.size == UC_CCC_SIZE_LAWS;
}

/*
 * What counts of a flow's growth. One that has less than its share, since others' packets fill it
 * still, is in slow start towards that by itself. The sum is not: it has been there before, and
 * grows by a segment for a window acknowledged (RFC 5681 §3.1).
 */
static __always_inline __u64 uc_ccc_sum_growth(const struct uc_ccc *ccc,
					       const struct uc_ccc_report *report,
					       __u64 given_bytes, __u64 grown_bytes)
{
	__u64 steady_bytes = (__u64)report->acked_bytes * report->mss_bytes;

	if (report->state != UC_CCC_SLOW_START || ccc->window_q16 >> 16 < ccc->ssthresh_bytes)
		return grown_bytes;
	return uc_min64(grown_bytes, steady_bytes / uc_max64(given_bytes, report->mss_bytes));
}

#endif
