/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group whose flows are in one guest, coupled to those of other guests by the host, over a
 * channel that is slower than ACKs are: what it keeps for its reports, and how it follows the
 * answers.
 *
 * Reports are counters, never differences: one that is lost, or answered late, is contained in the
 * next. Answers are the host's group as this guest is to see it: its part of the window and of
 * ssthresh, and when the host last cut. One is worth a retransmission timeout. Without a newer one
 * the group goes on by itself from where it is, as if there were no host.
 */
#ifndef UC_COUPLING_ACROSS_H
#define UC_COUPLING_ACROSS_H

#include "window.h"

/* Linux' least variance part of the RTO (TCP_RTO_MIN): an RTO is a smoothed round trip and this. */
#define UC_CCC_RTO_MIN_NS 200000000ULL

struct uc_ccc_link {
	__u64 opened_ns;      /* when the group was made: another number, another group */
	__u64 grown_q16;      /* bytes by which its flows have opened its window, since then */
	__u64 acked_bytes;    /* since then */
	__u64 cut_ns;         /* its own last cut */
	__u64 taken_ns;       /* which answer it follows: `at_ns` of that */
	__u32 cut_from_bytes; /* its window before and after that cut */
	__u32 cut_to_bytes;
	__u32 mss_bytes;
	__u32 pad;
};

struct uc_ccc_told {
	__u64 at_ns;  /* by the guest's clock: when the report was made that this answers */
	__u64 cut_ns; /* likewise: the host's last cut; 0: none */
	__u32 window_bytes;
	__u32 ssthresh_bytes;
	__u32 cuts; /* of this group, that the host had heard of */
	__u32 pad;
};

static __always_inline __u8 uc_ccc_is_fresh(const struct uc_ccc *ccc,
					    const struct uc_ccc_told *told, __u64 now_ns)
{
	__u64 srtt_us = uc_max64(ccc->srtt_max_us, ccc->srtt_was_us) >> 3;

	return told->at_ns <= now_ns && now_ns - told->at_ns <= srtt_us * 1000 + UC_CCC_RTO_MIN_NS;
}

/*
 * Before the controller computes: what the host has told becomes the group's window, once; what its
 * flows add to that until the next answer stays. An answer from before the group's last cut would
 * undo it, so it waits for one that knows. With the host's cut comes its time: what was sent before
 * tells this group nothing new either (RFC 6582's recovery point again).
 */
static __always_inline void uc_ccc_follow(struct uc_ccc *ccc, struct uc_ccc_link *link,
					  const struct uc_ccc_told *told, __u64 now_ns)
{
	if (told->at_ns <= link->taken_ns || told->cuts != ccc->cuts ||
	    !uc_ccc_is_fresh(ccc, told, now_ns))
		return;
	uc_ccc_set_window(ccc, (__u64)told->window_bytes << 16);
	ccc->ssthresh_bytes = uc_min64(told->ssthresh_bytes, UC_CCC_INFINITE_SSTHRESH);
	ccc->cut_ns = uc_max64(ccc->cut_ns, uc_min64(told->cut_ns, now_ns));
	link->taken_ns = told->at_ns;
}

/* After it has computed: what the next report will say. */
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
