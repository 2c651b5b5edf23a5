/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group in a guest's kernel that the host couples to the groups of other guests. Their channel is
 * slower than ACKs. Here is what the guest stores for its reports, and how it applies the answers.
 *
 * Reports are counters, not differences, so a report that is lost or answered late is contained in
 * the next. An answer is the guest's part of the host's group: its window, its ssthresh, and the
 * time of the host's last reduction. It is valid for a retransmission timeout. Without a newer one
 * the group goes on from its present window, as if there were no host.
 */
#ifndef UC_COUPLING_ACROSS_H
#define UC_COUPLING_ACROSS_H

#include "window.h"

/* Linux's minimum for the variance part of the RTO (TCP_RTO_MIN); the RTO is a smoothed round trip
 * plus this. */
#define UC_CCC_RTO_MIN_NS 200000000ULL

struct uc_ccc_link {
	__u64 opened_ns;      /* when the group was created; a new value: a new group */
	__u64 grown_q16;      /* growth of the group's window by its own flows since opened_ns,
			       * bytes × 2^16 */
	__u64 acked_bytes;    /* acknowledged since opened_ns */
	__u64 cut_ns;         /* when the group's own flows last cut its window; 0: never */
	__u64 taken_ns;       /* `at_ns` of the answer that was applied last */
	__u32 cut_from_bytes; /* the group's window before that cut; next field: after it */
	__u32 cut_to_bytes;
	__u32 mss_bytes;
	__u32 pad;
};

struct uc_ccc_told {
	__u64 at_ns;  /* by the guest's clock: when the report was made that this answer is to */
	__u64 cut_ns; /* by the guest's clock: when the host last cut the window; 0: never */
	__u32 window_bytes;
	__u32 ssthresh_bytes;
	__u32 cuts; /* reductions of this group that the host knew when it answered */
	__u32 pad;
};

/* Returns whether the answer is at most a retransmission timeout old. */
static __always_inline __u8 uc_ccc_is_fresh(const struct uc_ccc *ccc,
					    const struct uc_ccc_told *told, __u64 now_ns)
{
	__u64 srtt_us = uc_max64(ccc->srtt_max_us, ccc->srtt_was_us) >> 3;

	return told->at_ns <= now_ns && now_ns - told->at_ns <= srtt_us * 1000 + UC_CCC_RTO_MIN_NS;
}

/*
 * Sets the group's window to the host's answer, once for each answer, before the controller
 * computes; what its flows add until the next answer stays. An answer made before the host knew of
 * the group's last reduction would undo it, so it is ignored. The time of the host's last reduction
 * is taken over, too: the loss of a packet sent before it is part of the same loss event (RFC
 * 6582's recovery point). The group's flows learn of the reduction only now, and have sent with the
 * window before it meanwhile. So the time is later by as long as the answer took, the report
 * included.
 */
static __always_inline void uc_ccc_follow(struct uc_ccc *ccc, struct uc_ccc_link *link,
					  const struct uc_ccc_told *told, __u64 now_ns)
{
	if (told->at_ns <= link->taken_ns || told->cuts != ccc->cuts ||
	    !uc_ccc_is_fresh(ccc, told, now_ns))
		return;
	uc_ccc_set_window(ccc, (__u64)told->window_bytes << 16);
	ccc->ssthresh_bytes = uc_min64(told->ssthresh_bytes, UC_CCC_INFINITE_SSTHRESH);
	if (told->cut_ns)
		ccc->cut_ns =
			uc_max64(ccc->cut_ns, now_ns - uc_ccc_less(told->at_ns, told->cut_ns));
	link->taken_ns = told->at_ns;
}

/* Records for the next report what the controller has just computed. `window_was_q16`, `cuts_were`:
 * the group's window_q16 and cuts before. */
static __always_inline void uc_ccc_note(const struct uc_ccc *ccc, struct uc_ccc_link *link,
					const struct uc_ccc_report *report, __u64 window_was_q16,
					__u32 cuts_were, __u64 now_ns)
{
	if (ccc->cuts != cuts_were) {
		link->cut_ns = now_ns;
		link->cut_from_bytes = window_was_q16 >> 16;
		link->cut_to_bytes = uc_ccc_window_bytes(ccc);
	} else {
		link->grown_q16 += uc_ccc_less(ccc->window_q16, window_was_q16);
	}
	link->acked_bytes += report->acked_bytes;
	link->mss_bytes = report->mss_bytes;
}

#endif
