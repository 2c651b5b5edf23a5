/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Machine `reno`: NewReno that obeys ECN (RFC 3168), in the profile of the flow's policy:
 * reno_rfc.h or reno_linux.h. How much a mark takes is the law's cut (cut.h).
 */
#ifndef UC_LAWS_RENO_H
#define UC_LAWS_RENO_H

#include "cut.h"
#include "reno_linux.h"
#include "reno_rfc.h"

/* A window that throttles nothing, in bytes. */
#define UC_UNLIMITED_BYTES 0x7fffffff
/*
 * While a guest repairs a loss, its own TCP governs and the window throttles nothing. A guard
 * cannot hold a guest to such a window, and a loss is easily feigned. So with a guard the window is
 * the most that a repair needs, in multiples of ssthresh: two for the flight that it began with,
 * and one for the new data that RFC 5681 and RFC 6937 let out during a round trip of it.
 */
#define UC_GUARDED_REPAIR_SSTHRESH 3

static __always_inline void uc_reno_open(struct uc_flow *flow, struct uc_annex *annex)
{
	(void)annex;
	if (flow->policy.profile == UC_PROFILE_RFC)
		uc_rfc_open(flow);
	else
		uc_linux_open(flow);
}

static __always_inline void uc_reno_sent(struct uc_flow *flow, struct uc_annex *annex,
					 const struct uc_sample *sample)
{
	if (flow->policy.profile == UC_PROFILE_RFC)
		uc_rfc_sent(flow, annex, sample);
	else
		uc_linux_sent(flow, annex, sample);
}

/*
 * Returns whether the last reduction has already answered the mark that an ACK echoes. If the ACK
 * covers data sent before the reduction and data sent after it, either may have been marked: it
 * counts as a new mark. Under a guard it counts as answered if at most one segment of the data was
 * sent after the reduction: by retransmitting, a guest can shift which two segments its peer
 * acknowledges together, so it could choose.
 */
static __always_inline __u8 uc_rfc_has_answered(const struct uc_flow *flow,
						const struct uc_sample *sample)
{
	__u32 beyond_bytes = flow->snd_una - flow->reno.reduced_seq;

	if ((__s32)beyond_bytes <= 0)
		return 1;
	return beyond_bytes < sample->acked_bytes && beyond_bytes <= flow->mss_bytes &&
	       uc_guard_segments(&flow->policy);
}

/* Handles an ACK in profile `rfc`. A mark reduces the window once for a window of data, and not
 * after a loss in that window (RFC 3168 §6.1.2). */
static __always_inline void uc_rfc_ecn(struct uc_flow *flow, const struct uc_sample *sample)
{
	__u8 lost = flow->ca == UC_CA_RECOVERY || uc_rfc_shows_loss(flow, sample);
	__u8 in_timeout = flow->ca == UC_CA_LOSS;
	struct uc_sample rest = *sample;

	if (uc_undo_judge(flow, sample->acked_bytes, sample->marked)) {
		uc_rfc_undo(flow, sample->acked_bytes);
		return;
	}
	if (!sample->marked || lost || uc_rfc_has_answered(flow, sample)) {
		/* §6.1.2: an ACK with ECE does not open the window. But the repair of a timeout has
		 * answered the marks before it; there the guest's own growth lets out what it
		 * retransmits, and no window can hold back what is in flight */
		if (sample->marked && !lost && !in_timeout)
			rest.acked_bytes = 0;
		uc_rfc_ack(flow, &rest);
		return;
	}
	uc_rfc_cut(flow, uc_max(uc_cut_remains(flow, flow->reno.cwnd),
				uc_cut_least(flow) * flow->mss_bytes));
	flow->cuts++;
}

static __always_inline void uc_linux_ecn(struct uc_flow *flow, const struct uc_sample *sample)
{
	__u8 recovering = flow->ca == UC_CA_RECOVERY;
	struct uc_sample rest = *sample;

	if (uc_undo_judge(flow, sample->acked_bytes, sample->marked))
		uc_linux_undo(flow);
	if (sample->acked_bytes)
		uc_linux_end_reduction(flow);
	/* the duplicates of the repair counted all but about one segment as delivered before */
	if ((recovering && flow->ca == UC_CA_OPEN) || (sample->fills && !uc_linux_reducing(flow)))
		rest.acked_bytes = uc_min(sample->acked_bytes, flow->mss_bytes);
	if (sample->marked && flow->ca == UC_CA_OPEN) {
		uc_linux_cut(flow,
			     uc_max(uc_cut_remains(flow, flow->reno.cwnd), uc_cut_least(flow)));
		flow->cuts++;
	}
	uc_linux_ack(flow, &rest);
}

static __always_inline void uc_reno_ack(struct uc_flow *flow, struct uc_annex *annex,
					const struct uc_sample *sample)
{
	(void)annex;
	if (flow->policy.profile == UC_PROFILE_RFC)
		uc_rfc_ecn(flow, sample);
	else
		uc_linux_ecn(flow, sample);
}

/*
 * Returns the window of a guest that repairs a loss under a guard, in segments. After a timeout the
 * guest retransmits within the right edge, and then grows to ssthresh as the shadow does: more
 * would be a gain for each timeout that it feigns. While its timeout may still be undone, the
 * window is at most the one before.
 */
static __always_inline __u64 uc_linux_repair_segments(const struct uc_flow *flow)
{
	const struct uc_reno *reno = &flow->reno;
	__u64 segments = UC_GUARDED_REPAIR_SSTHRESH * (__u64)reno->ssthresh;

	if (uc_undo_is_open(flow))
		return uc_min(segments, reno->prr.prior_cwnd);
	return flow->ca == UC_CA_LOSS ? uc_max(reno->cwnd, reno->ssthresh) : segments;
}

static __always_inline __u32 uc_reno_window_bytes(const struct uc_flow *flow)
{
	__u64 bytes = flow->reno.cwnd;

	if (flow->policy.profile == UC_PROFILE_LINUX) {
		if (!uc_observes(&flow->policy) &&
		    (flow->ca == UC_CA_RECOVERY || flow->ca == UC_CA_LOSS)) {
			if (!uc_guard_segments(&flow->policy))
				return UC_UNLIMITED_BYTES;
			bytes = uc_linux_repair_segments(flow);
		}
		bytes *= flow->mss_bytes;
	} else {
		bytes = uc_max(flow->reno.cwnd, uc_undo_probe_bytes(flow));
	}
	return bytes < UC_UNLIMITED_BYTES ? bytes : UC_UNLIMITED_BYTES;
}

#endif
