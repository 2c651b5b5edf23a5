/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How a group's window grows and shrinks, so that the group is as aggressive as one TCP, or as many
 * as policy says.
 *
 * There is no coordinator. In the draft one flow's growth counts and the other flows wait for it,
 * so the group's window stands still while that flow is silent. Here each flow's growth counts in
 * proportion to its share: n flows that each grow by a segment in a round trip grow the group by
 * one segment, and a silent flow reduces the growth by its share only. A loss event belongs to no
 * flow but has a time: the loss of a packet sent before the group's last reduction is part of the
 * same event, whichever flow lost it (RFC 6582's recovery point, for flows that have no sequence
 * numbers in common).
 */
#ifndef UC_COUPLING_WINDOW_H
#define UC_COUPLING_WINDOW_H

#include "sum.h"

#define UC_CCC_ONE_Q16 (1ULL << 16)
/* The largest group size n that counts for its aggressiveness. */
#define UC_CCC_SIZE_MAX (1U << 14)
/* Window of a group after two silent epochs: the initial window of RFC 6928. */
#define UC_CCC_RESTART_SEGMENTS 10U

/* Sets the group's window (bytes × 2^16), at least 1 byte and at most policy's maximum. */
static __always_inline void uc_ccc_set_window(struct uc_ccc *ccc, __u64 window_q16)
{
	__u64 most_q16 = (__u64)ccc->policy.window_max_bytes << 16;

	ccc->window_q16 = uc_max64(uc_min64(window_q16, most_q16), UC_CCC_ONE_Q16);
}

/* Reduces the window by `by_q16` (bytes × 2^16), but not below `least_bytes`; a smaller window
 * stays. */
static __always_inline void uc_ccc_reduce(struct uc_ccc *ccc, __u64 by_q16, __u32 least_bytes)
{
	__u64 least_q16 = uc_min64(ccc->window_q16, (__u64)least_bytes << 16);

	uc_ccc_set_window(ccc, uc_max64(uc_ccc_less(ccc->window_q16, by_q16), least_q16));
}

/* Returns as how many TCPs the group acts, times 2^16; at least one. Only window-limited flows (or
 * their guests) count: idle connections don't make a busy one more aggressive. */
static __always_inline __u64 uc_ccc_tcps_q16(const struct uc_ccc *ccc)
{
	const struct uc_ccc_amounts *all = &ccc->guests.counted;
	__u32 size = ccc->policy.size == UC_CCC_SIZE_GUESTS ? all->hungry_guests : all->hungry;

	size = uc_min64(uc_max64(size, 1), UC_CCC_SIZE_MAX);
	return UC_CCC_ONE_Q16 + (__u64)ccc->policy.aggressiveness_q16 * (size - 1);
}

/* Estimates how long ago (ns) the packet was sent that is now acknowledged or lost: 1.25 smoothed
 * round trips, of which the quarter covers a queue that has grown since. `srtt_us` is ×8; 0: the
 * group's. */
static __always_inline __u64 uc_ccc_age_ns(const struct uc_ccc *ccc, __u32 srtt_us)
{
	if (!srtt_us)
		srtt_us = uc_max64(ccc->srtt_max_us, ccc->srtt_was_us);
	return ((srtt_us >> 3) + (srtt_us >> 5)) * 1000ULL;
}

/* Returns whether a packet sent `age_ns` ago was sent after the group's last reduction; 1 if there
 * was none. */
static __always_inline __u8 uc_ccc_is_news(const struct uc_ccc *ccc, __u64 age_ns, __u64 now_ns)
{
	return !ccc->cut_ns || uc_ccc_less(now_ns, age_ns) > ccc->cut_ns;
}

/*
 * Returns by which fraction (× 2^16) one flow's loss or mark reduces the group's window. The flow's
 * law keeps ssthresh ÷ `had_bytes`: 0.5 (RFC 5681), 0.7 (RFC 9438), 1 − α/2 (RFC 8257). A group
 * that acts as `a` TCPs (uc_ccc_tcps_q16()) takes 1/a of the reduction: one of the TCPs lost a
 * packet, the others didn't (MulTCP).
 */
static __always_inline __u64 uc_ccc_cut_q16(const struct uc_ccc *ccc,
					    const struct uc_ccc_report *report, __u32 had_bytes)
{
	__u64 had = uc_max64(had_bytes, report->mss_bytes);
	__u64 left_q16 = ((__u64)report->ssthresh_bytes << 16) / had;

	/* A law keeps at least half: a smaller ssthresh comes from a small flight. RFC 5681's
	 * minimum of two segments is one for the flow's window, not for the group's; flows of a sum
	 * report what they would have without that minimum. */
	if (left_q16 < UC_CCC_ONE_Q16 / 2 ||
	    (!uc_ccc_is_sum(ccc) && report->ssthresh_bytes <= 2U * report->mss_bytes))
		left_q16 = UC_CCC_ONE_Q16 / 2;
	left_q16 = uc_min64(left_q16, UC_CCC_ONE_Q16);
	return ((UC_CCC_ONE_Q16 - left_q16) << 16) / uc_ccc_tcps_q16(ccc);
}

/*
 * Returns the smallest window (bytes) that a reduction leaves the group. It is two segments, as for
 * a TCP (RFC 5681 §3.1, equation 4). After a mark or a fast retransmit it is also large enough that
 * the reporting flow's share is two segments: with one, each of its segments waits for the
 * receiver's delayed ACK (RFC 1122 §4.2.3.2), and the link stands idle while the group grows back.
 * So the losses of a flow with a large share may reduce the window further. In a sum the mean
 * window keeps two segments.
 */
static __always_inline __u32 uc_ccc_least_bytes(const struct uc_ccc *ccc,
						const struct uc_ccc_report *report,
						__u64 share_bytes)
{
	__u64 two_bytes = 2U * report->mss_bytes, window_bytes = uc_ccc_window_bytes(ccc);

	if (uc_ccc_is_sum(ccc))
		return uc_min64(two_bytes * uc_ccc_tcps_q16(ccc) >> 16, UC_CCC_WINDOW_MAX_BYTES);
	if (report->state != UC_CCC_RECOVERY || !share_bytes)
		return two_bytes;
	/* plus 2, since a share is rounded down twice */
	return uc_max64(two_bytes,
			uc_min64(window_bytes, window_bytes * (two_bytes + 2) / share_bytes));
}

/*
 * Reduces the group's window for a flow that enters recovery. A group that acts as `a` TCPs
 * (uc_ccc_tcps_q16()) answers one loss event up to `a` times, because the event may hit `a` flows,
 * each of which would halve its window if it were uncoupled: the loss of a whole queue then costs
 * half the window, and not only 1/a of that.
 */
static __always_inline void uc_ccc_lose(struct uc_ccc *ccc, const struct uc_ccc_report *report,
					__u32 had_bytes, __u64 share_bytes, __u64 now_ns)
{
	__u64 age_ns = report->lost_age_us * 1000ULL, cut_q16, tcps_q16, less_q16;

	if (!age_ns)
		age_ns = uc_ccc_age_ns(ccc, report->srtt_us);
	if (uc_ccc_is_news(ccc, age_ns, now_ns)) {
		ccc->spare_q16 = uc_ccc_tcps_q16(ccc);
		ccc->before_bytes = uc_ccc_window_bytes(ccc);
		ccc->cut_ns = uc_max64(now_ns, 1);
		ccc->cuts++;
	}
	/* in a sum each flow's law counts by itself which loss events it has answered */
	tcps_q16 = uc_ccc_is_sum(ccc) ? UC_CCC_ONE_Q16 : uc_min64(ccc->spare_q16, UC_CCC_ONE_Q16);
	if (!tcps_q16)
		return;
	ccc->spare_q16 = uc_ccc_less(ccc->spare_q16, tcps_q16);
	cut_q16 = uc_ccc_cut_q16(ccc, report, had_bytes) * tcps_q16 >> 16;
	less_q16 =
		uc_ccc_is_sum(ccc) ? ccc->before_bytes * cut_q16 : ccc->window_q16 * cut_q16 >> 16;
	uc_ccc_reduce(ccc, less_q16, uc_ccc_least_bytes(ccc, report, share_bytes));
	ccc->ssthresh_bytes = uc_max64(uc_ccc_window_bytes(ccc), 2U * report->mss_bytes);
}

/*
 * Handles a retransmission timer that fires again: the retransmission is lost too, which indicates
 * congestion once more (RFC 5681 §4.3). An uncoupled TCP doubles its timeout and keeps its ssthresh
 * (§3.1). In a group that is not enough: other flows go on sending into the queue that dropped the
 * packet, and a flow with one segment would be locked out. So the group reduces its window as for a
 * first timeout. If all its flows have timed out, its window is one segment, and it only counts the
 * event, for a host that couples several groups. In a sum each flow answers for itself.
 */
static __always_inline void uc_ccc_back_off(struct uc_ccc *ccc, struct uc_ccc_flow *flow,
					    struct uc_ccc_report *report, __u64 now_ns)
{
	const struct uc_ccc_amounts *all = &ccc->guests.counted;
	__u64 age_ns = report->lost_age_us * 1000ULL;

	if (report->state != UC_CCC_BACKOFF)
		return;
	report->state = UC_CCC_LOSS;
	if (flow->state != UC_CCC_LOSS || uc_ccc_is_sum(ccc))
		return;
	if (!age_ns)
		age_ns = uc_ccc_age_ns(ccc, report->srtt_us);
	if (all->stalled < all->flows) {
		flow->state = UC_CCC_AVOIDANCE;
		/* the law's ssthresh dates from the first timeout */
		report->ssthresh_bytes = 0;
		return;
	}
	uc_ccc_set_window(ccc, (__u64)report->mss_bytes << 16);
	if (uc_ccc_is_news(ccc, age_ns, now_ns)) {
		ccc->cut_ns = uc_max64(now_ns, 1);
		ccc->spare_q16 = 0;
		ccc->cuts++;
	}
}

/*
 * Grows the group's window after one flow, whose share is `share_bytes`, has grown by
 * `grown_bytes`. In slow start each byte counts, because all windows double together. In congestion
 * avoidance a flow's growth doesn't depend on its window, so it counts in proportion to the share,
 * times the number of TCPs that the group acts as (uc_ccc_tcps_q16()).
 */
static __always_inline void uc_ccc_grow(struct uc_ccc *ccc, __u64 share_bytes, __u64 grown_bytes)
{
	__u64 window_q16 = ccc->window_q16, window_bytes = uc_ccc_window_bytes(ccc);
	__u64 ssthresh_q16 = (__u64)ccc->ssthresh_bytes << 16, gain_q32, grown_q8;

	if (window_q16 < ssthresh_q16) {
		window_q16 = uc_min64(window_q16 + (grown_bytes << 16), ssthresh_q16);
	} else if (uc_ccc_is_sum(ccc)) {
		window_q16 += grown_bytes << 16;
	} else {
		gain_q32 = (uc_min64(share_bytes, window_bytes) << 32) /
			   (window_bytes | !window_bytes);
		/* at most 4 MiB for each report, or the product could overflow */
		grown_q8 = uc_min64(grown_bytes * uc_ccc_tcps_q16(ccc) >> 8, 1 << 30);
		window_q16 += grown_q8 * gain_q32 >> 24;
	}
	uc_ccc_set_window(ccc, window_q16);
}

/* Applies the difference between the window that a flow got and the one that it reports: what its
 * own law has done outside recovery. */
static __always_inline void uc_ccc_compare(struct uc_ccc *ccc, const struct uc_ccc_flow *flow,
					   const struct uc_ccc_report *report, __u64 share_bytes,
					   __u64 now_ns)
{
	__u64 given = flow->given_bytes, grown_bytes = uc_ccc_less(report->cwnd_bytes, given);
	__u64 shrunk_bytes = uc_ccc_less(given, report->cwnd_bytes);

	/* RFC 7661: an unused window doesn't grow; its share is released, the sum stays */
	if (report->limited)
		return;
	/* the flow has left slow start without a loss (HyStart++, RFC 9406): so does the group */
	if (ccc->window_q16 >> 16 < ccc->ssthresh_bytes && report->state == UC_CCC_AVOIDANCE &&
	    report->ssthresh_bytes + report->mss_bytes <= flow->given_ssthresh_bytes)
		ccc->ssthresh_bytes = uc_ccc_window_bytes(ccc);
	/* a platform whose TCP counts segments can't express smaller differences */
	if (shrunk_bytes >= report->mss_bytes)
		uc_ccc_reduce(ccc, shrunk_bytes << 16, report->mss_bytes);
	/* RFC 5681 §3.1 and §3.2: growth is limited by the bytes acknowledged, and ACKs of data
	 * sent before the reduction don't count */
	grown_bytes = uc_min64(grown_bytes, uc_max64(report->acked_bytes, report->mss_bytes));
	if (uc_ccc_is_sum(ccc))
		grown_bytes = uc_ccc_sum_growth(ccc, report, given, grown_bytes);
	if (grown_bytes && report->acked_bytes &&
	    (uc_ccc_is_sum(ccc) ||
	     uc_ccc_is_news(ccc, uc_ccc_age_ns(ccc, report->srtt_us), now_ns)))
		uc_ccc_grow(ccc, share_bytes, grown_bytes);
}

/* Returns whether each flow that counts is in RTO recovery. */
static __always_inline __u8 uc_ccc_all_stalled(const struct uc_ccc *ccc)
{
	const struct uc_ccc_amounts *all = &ccc->guests.counted;

	return all->flows && all->stalled >= all->flows;
}

/* Changes the group's window by a flow's report. `known`: the flow has reported before and counts.
 */
static __always_inline void uc_ccc_digest(struct uc_ccc *ccc, const struct uc_ccc_flow *flow,
					  const struct uc_ccc_report *report, __u64 share_bytes,
					  __u8 known, __u64 now_ns)
{
	/* from RTO recovery, too: an ACK may end one reduction and begin the next */
	__u8 entered = report->state >= UC_CCC_RECOVERY && flow->state != report->state;
	/* DCTCP reduces once in each round trip while marks go on */
	__u8 again = !!report->again & known & (report->state == UC_CCC_RECOVERY) &
		     (flow->state >= UC_CCC_RECOVERY);
	__u64 grown_bytes = uc_ccc_less(report->cwnd_bytes, flow->given_bytes);

	if (entered || again) {
		uc_ccc_lose(ccc, report, again ? report->cwnd_bytes : flow->given_bytes,
			    share_bytes, now_ns);
		return;
	}
	if (!known)
		return;
	if (report->state < UC_CCC_RECOVERY && flow->state < UC_CCC_RECOVERY) {
		uc_ccc_compare(ccc, flow, report, share_bytes, now_ns);
	} else if (report->state == UC_CCC_LOSS && uc_ccc_all_stalled(ccc)) {
		/* all flows retransmit (uc_ccc_collapse): the group follows their slow start */
		uc_ccc_grow(ccc, share_bytes, uc_min64(grown_bytes, report->acked_bytes));
	}
}

/*
 * Sets the window to one segment if each flow that counts has timed out: then the group is like a
 * TCP after a timeout (RFC 5681 §3.1). After a timeout of one flow the others' ACKs still arrive,
 * and the group has only lost a packet.
 */
static __always_inline void uc_ccc_collapse(struct uc_ccc *ccc, __u32 mss_bytes)
{
	if (uc_ccc_all_stalled(ccc))
		uc_ccc_set_window(ccc, (__u64)mss_bytes << 16);
}

/* Restarts a group none of whose flows has reported for two epochs (RFC 5681 §4.1): at most ten
 * segments, and ssthresh keeps three quarters of the window that it had. */
static __always_inline void uc_ccc_restart(struct uc_ccc *ccc, __u32 mss_bytes)
{
	__u32 window_bytes = uc_ccc_window_bytes(ccc);

	if (ccc->ssthresh_bytes != UC_CCC_INFINITE_SSTHRESH)
		ccc->ssthresh_bytes = uc_max64(ccc->ssthresh_bytes, window_bytes / 4 * 3);
	uc_ccc_set_window(
		ccc, uc_min64(ccc->window_q16, ((__u64)UC_CCC_RESTART_SEGMENTS * mss_bytes) << 16));
}

#endif
