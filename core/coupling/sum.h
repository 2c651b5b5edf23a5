/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group whose window is the sum of the windows of its flows' own laws (vCC, SIGCOMM 2016, §4). It
 * works with any law. The sum is divided by weight among the flows that have data in flight, again
 * whenever one begins or ends. Policies and experiments call it `share`.
 *
 * The weights divide the sum and change nothing else. So the sum W is what it would be without
 * weights, if each of n flows had the mean window W/n:
 *
 *   growth      ΣΔ: each flow grows as its law does, which doesn't depend on the size of its window
 *               (a segment in a round trip, or in slow start the bytes acknowledged)
 *   reduction   W -= (W/n)·(1 - left): the flow's law keeps the part `left` of the mean window. W
 *               is the sum before the first flow that the same loss event hit: flows don't know of
 *               each other's reductions, and if all halve their windows the sum is halved
 *
 * Two other rules were rejected. If a reduction took the flow's own part W·w/Σw, a group of one
 * large and many small parts would have the growth of all flows and the reductions of one: with
 * loss p of each packet its sum is √(2/(p·Σ(w/Σw)²)) times √n segments, which for four flows, one
 * of which has nearly all of the window, is half of what four equal flows have. If each flow kept a
 * window of its own and reduced it for the losses of its share, the window of the large part would
 * fall to its minimum, those of the small parts would grow without end, and the sum with them. By
 * the rule above the sum is that of n equal flows, √(2/p)·n, whatever the weights (for small p, and
 * losses that are independent or hit all flows at once).
 *
 * Unlike one TCP, n flows lose at n times. Each flow's law knows which losses it has answered and
 * when it may grow again, so another flow's reduction doesn't delay its growth. A law's minimum
 * window applies to the mean window. A flow that joins brings no window: the sum stays, and grows
 * by one flow more.
 */
#ifndef UC_COUPLING_SUM_H
#define UC_COUPLING_SUM_H

#include "group.h"

/* Returns whether the group's window is the sum of its flows' laws. */
static __always_inline __u8 uc_ccc_is_sum(const struct uc_ccc *ccc)
{
	return ccc->policy.size == UC_CCC_SIZE_LAWS;
}

/*
 * Returns by how many bytes the sum grows when a flow's window has grown by `grown_bytes`. A flow
 * that has less than its share, because other flows' packets still fill it, is in slow start toward
 * the share. The sum isn't in slow start: it grows by a segment for each window acknowledged (RFC
 * 5681 §3.1).
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
