/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How a group's window grows and shrinks, so that the group is one TCP, or as many as policy says.
 *
 * There is no coordinator. In the draft one flow's growth counts and the rest wait for it, so the
 * group stands still when that flow falls silent. Here each flow's growth counts in proportion to
 * its share: n flows that each grow by a segment in a round trip grow the group by one segment,
 * and whichever of them is silent is missed by its share only. And a loss event has no owner but
 * a time: what was sent before the group's last cut tells nothing new, whoever lost it (RFC 6582's
 * recovery point, for flows that have no sequence numbers in common).
 */
#ifndef UC_COUPLING_WINDOW_H
#define UC_COUPLING_WINDOW_H

#include "sum.h"

#define UC_CCC_ONE_Q16 (1ULL << 16)
/* n is not counted any further. */
#define UC_CCC_SIZE_MAX (1U << 14)
/* Of a group that fell silent: the initial window of RFC 6928. */
#define UC_CCC_RESTART_SEGMENTS 10U

static __always_inline void uc_ccc_set_window(struct uc_ccc *ccc, __u64 window_q16)
{
	__u64 most_q16 = (__u64)ccc->policy.window_max_bytes << 16;

	ccc->window_q16 = uc_max64(uc_min64(window_q16, most_q16), UC_CCC_ONE_Q16);
}

/* Less than before, but for a reason that doesn't reach below so many bytes. */
static __always_inline void uc_ccc_reduce(struct uc_ccc *ccc, __u64 by_q16, __u32 least_bytes)
{
	__u64 least_q16 = uc_min64(ccc->window_q16, (__u64)least_bytes << 16);

	uc_ccc_set_window(ccc, uc_max64(uc_ccc_less(ccc->window_q16, by_q16), least_q16));
}

/* a: how many TCPs the group is worth, 1 or more. Only flows that the window limits make it more:
 * idle connections don't lend their number to a busy one. */
static __always_inline __u64 uc_ccc_tcps_q16(const struct uc_ccc *ccc)
{
	const struct uc_ccc_amounts *all = &ccc->guests.counted;
	__u32 size = ccc->policy.size == UC_CCC_SIZE_GUESTS ? all->hungry_guests : all->hungry;

	size = uc_min64(uc_max64(size, 1), UC_CCC_SIZE_MAX);
	return UC_CCC_ONE_Q16 + (__u64)ccc->policy.aggressiveness_q16 * (size - 1);
}

/* How long ago was sent what an ACK or a loss of now tells of: a round trip, and a quarter for the
 * queue that has grown since it was smoothed. */
static __always_inline __u64 uc_ccc_age_ns(const struct uc_ccc *ccc, __u32 srtt_us)
{
	if (!srtt_us)
		srtt_us = uc_max64(ccc->srtt_max_us, ccc->srtt_was_us);
	return ((srtt_us >> 3) + (srtt_us >> 5)) * 1000ULL;
}

static __always_inline __u8 uc_ccc_is_news(const struct uc_ccc *ccc, __u64 age_ns, __u64 now_ns)
{
	return !ccc->cut_ns || uc_ccc_less(now_ns, age_ns) > ccc->cut_ns;
}

/*
 * The flow's own law wants ssthresh of what it had: a half (RFC 5681), 0.7 (RFC 9438), 1 − α/2 (RFC
 * 8257). A group of a TCPs cuts a-th part of that: one of them lost, the others didn't (MulTCP).
 */
static __always_inline __u64 uc_ccc_cut_q16(const struct uc_ccc *ccc,
					    const struct uc_ccc_report *report, __u32 had_bytes)
{
	__u64 had = uc_max64(had_bytes, report->mss_bytes);
	__u64 left_q16 = ((__u64)report->ssthresh_bytes << 16) / had;

	/* less than a half is what was in flight, not the law; and RFC 5681's floor of two segments
	 * is no opinion about the group's window (who is in a sum says what it would be without) */
	if (left_q16 < UC_CCC_ONE_Q16 / 2 ||
	    (!uc_ccc_is_sum(ccc) && report->ssthresh_bytes <= 2U * report->mss_bytes))
		left_q16 = UC_CCC_ONE_Q16 / 2;
	left_q16 = uc_min64(left_q16, UC_CCC_ONE_Q16);
	return ((UC_CCC_ONE_Q16 - left_q16) << 16) / uc_ccc_tcps_q16(ccc);
}

/*
 * Where a cut ends. RFC 5681 §3.1, equation 4: at least two segments, for the group as for a TCP;
 * and for the flow that was marked or that repairs by fast retransmit two as well, as its own law
 * would leave it. With one, each of its segments waits for the receiver's timer (RFC 1122
 * §4.2.3.2), the group grows by a segment in as many of those as it has flows, and the link stands
 * idle. It is the share of whoever tells that counts: a larger flow's losses cut further. A timeout
 * cuts to the group's two. In a sum it is the mean window that keeps two.
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
	/* shares are rounded down, twice */
	return uc_max64(two_bytes,
			uc_min64(window_bytes, window_bytes * (two_bytes + 2) / share_bytes));
}

/*
 * A flow enters recovery. A group of a TCPs answers one loss event up to a times, for it may have
 * hit as many flows, and by itself each of them would halve: what a queue drops at once is to cost
 * half the window, not an a-th of that.
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
	/* in a sum each flow's law knows what of a loss event it has answered */
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
 * A timer has fired again: what was resent is lost too. RFC 5681 §4.3 takes the loss of a
 * retransmission for another indication of congestion. By itself a TCP answers it by waiting twice
 * as long, and holds its ssthresh (§3.1); in a group that is no answer while others go on sending
 * into the queue that dropped it, and whoever has one segment left would be locked out for good. So
 * then it is an event like the first. Where nobody is left to cut it is counted only, for a host
 * that may know others. In a sum each flow stands for itself.
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
		/* the law's ssthresh is that of the first time */
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
 * A flow of this share has grown by so many bytes. In slow start each byte counts, since growth is
 * in proportion to the window and the group's doubles with its flows'. In congestion avoidance it
 * doesn't depend on the window, and counts by share · a.
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
		/* bounded at 4 MiB a report, for the product's sake */
		grown_q8 = uc_min64(grown_bytes * uc_ccc_tcps_q16(ccc) >> 8, 1 << 30);
		window_q16 += grown_q8 * gain_q32 >> 24;
	}
	uc_ccc_set_window(ccc, window_q16);
}

/* A flow outside recovery has another window than it was given: its own law's doing. */
static __always_inline void uc_ccc_compare(struct uc_ccc *ccc, const struct uc_ccc_flow *flow,
					   const struct uc_ccc_report *report, __u64 share_bytes,
					   __u64 now_ns)
{
	__u64 given = flow->given_bytes, grown_bytes = uc_ccc_less(report->cwnd_bytes, given);
	__u64 shrunk_bytes = uc_ccc_less(given, report->cwnd_bytes);

	/* RFC 7661: a window that isn't used doesn't grow; nor is it given up, but released */
	if (report->limited)
		return;
	/* HyStart and its like (RFC 9406) leave slow start without a loss: the group does */
	if (ccc->window_q16 >> 16 < ccc->ssthresh_bytes && report->state == UC_CCC_AVOIDANCE &&
	    report->ssthresh_bytes + report->mss_bytes <= flow->given_ssthresh_bytes)
		ccc->ssthresh_bytes = uc_ccc_window_bytes(ccc);
	/* less than a segment is what a home that counts segments can't express */
	if (shrunk_bytes >= report->mss_bytes)
		uc_ccc_reduce(ccc, shrunk_bytes << 16, report->mss_bytes);
	/* RFC 5681 §3.1 and §3.2: by no more than was acknowledged, and not by the ACKs of what was
	 * sent before the cut */
	grown_bytes = uc_min64(grown_bytes, uc_max64(report->acked_bytes, report->mss_bytes));
	if (uc_ccc_is_sum(ccc))
		grown_bytes = uc_ccc_sum_growth(ccc, report, given, grown_bytes);
	if (grown_bytes && report->acked_bytes &&
	    (uc_ccc_is_sum(ccc) ||
	     uc_ccc_is_news(ccc, uc_ccc_age_ns(ccc, report->srtt_us), now_ns)))
		uc_ccc_grow(ccc, share_bytes, grown_bytes);
}

static __always_inline __u8 uc_ccc_all_stalled(const struct uc_ccc *ccc)
{
	const struct uc_ccc_amounts *all = &ccc->guests.counted;

	return all->flows && all->stalled >= all->flows;
}

/* A flow's report, as far as it moves the group's window. `known`: it was heard before and counts.
 */
static __always_inline void uc_ccc_digest(struct uc_ccc *ccc, const struct uc_ccc_flow *flow,
					  const struct uc_ccc_report *report, __u64 share_bytes,
					  __u8 known, __u64 now_ns)
{
	__u8 entered = report->state == UC_CCC_LOSS
			       ? flow->state != UC_CCC_LOSS
			       : report->state == UC_CCC_RECOVERY && flow->state < UC_CCC_RECOVERY;
	__u64 grown_bytes = uc_ccc_less(report->cwnd_bytes, flow->given_bytes);

	if (entered) {
		uc_ccc_lose(ccc, report, flow->given_bytes, share_bytes, now_ns);
		return;
	}
	/* DCTCP's marks go on as long as its queue is too long, a cut in each round trip */
	if (report->again && known && report->state == UC_CCC_RECOVERY &&
	    flow->state == UC_CCC_RECOVERY) {
		uc_ccc_lose(ccc, report, report->cwnd_bytes, share_bytes, now_ns);
		return;
	}
	if (!known)
		return;
	if (report->state < UC_CCC_RECOVERY && flow->state < UC_CCC_RECOVERY) {
		uc_ccc_compare(ccc, flow, report, share_bytes, now_ns);
	} else if (report->state == UC_CCC_LOSS && uc_ccc_all_stalled(ccc)) {
		/* the whole group is resending (uc_ccc_collapse): its slow start is the flows' */
		uc_ccc_grow(ccc, share_bytes, uc_min64(grown_bytes, report->acked_bytes));
	}
}

/*
 * After a timeout of one flow, the others' ACKs still come: the group has lost, no more. Only when
 * each flow that counts has timed out is the group as a TCP whose timer has fired, and begins again
 * at one segment (RFC 5681 §3.1).
 */
static __always_inline void uc_ccc_collapse(struct uc_ccc *ccc, __u32 mss_bytes)
{
	if (uc_ccc_all_stalled(ccc))
		uc_ccc_set_window(ccc, (__u64)mss_bytes << 16);
}

/* Nobody was heard for two epochs: RFC 5681 §4.1's restart, and what was learnt is kept as
 * ssthresh. */
static __always_inline void uc_ccc_restart(struct uc_ccc *ccc, __u32 mss_bytes)
{
	__u32 window_bytes = uc_ccc_window_bytes(ccc);

	if (ccc->ssthresh_bytes != UC_CCC_INFINITE_SSTHRESH)
		ccc->ssthresh_bytes = uc_max64(ccc->ssthresh_bytes, window_bytes / 4 * 3);
	uc_ccc_set_window(
		ccc, uc_min64(ccc->window_q16, ((__u64)UC_CCC_RESTART_SEGMENTS * mss_bytes) << 16));
}

#endif
