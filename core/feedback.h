/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ECN feedback: how the host reads ECE and CWR from the peer, and writes them for the guest. The
 * way of a flow (enum uc_way) is none, classic or exact. For a guest without ECN the host
 * negotiates ECN itself. It clears ECE, CWR and CE from the peer's segments before the guest sees
 * them, and echoes CE in the guest's ACKs. Every offer is of classic ECN. A peer that turns out to
 * be a DCTCP sender gets exact feedback under a law with trait UC_EXACT.
 */
#ifndef UC_FEEDBACK_H
#define UC_FEEDBACK_H

#include "feedback/classic.h"
#include "feedback/exact.h"
#include "feedback/none.h"
#include "sample.h"

static __always_inline void uc_set_way(struct uc_flow *flow, enum uc_way way)
{
	flow->feedback = (flow->feedback & ~UC_FEEDBACK_WAY) | way;
}

/* Switches the flow to exact feedback if a segment of the peer shows a DCTCP sender. */
static __always_inline void uc_feedback_learn(struct uc_flow *flow,
					      const struct uc_segment *segment)
{
	__u8 exact = uc_has_feedback(flow) & uc_law_has(flow->policy.law, UC_EXACT);

	if (uc_exact_shows(segment))
		flow->feedback |= exact * UC_WAY_EXACT;
}

/* Adds to the sample what an ACK of the peer reports of marks on the guest's data. */
static __always_inline void uc_feedback_read(const struct uc_flow *flow,
					     const struct uc_segment *ack, struct uc_sample *sample)
{
	__u8 counts = uc_has_feedback(flow) & !(flow->policy.modes & UC_MODE_NO_ECT);
	__u8 reports = uc_classic_read(ack) & counts;

	uc_mark(sample, reports, uc_classic_bytes(reports, sample->acked_bytes));
}

/* Processes ECN of a segment of the peer that the guest accepts (RFC 3168 §6.1.5). */
static __always_inline void uc_feedback_received(struct uc_flow *flow,
						 const struct uc_segment *segment)
{
	uc_feedback_learn(flow, segment);
	if (!segment->payload_bytes)
		return;
	if (segment->flags & UC_CWR)
		uc_classic_reduced(flow);
	if (segment->ecn == UC_CE) {
		uc_classic_marked(flow);
		uc_exact_marked(flow, segment);
		flow->marks++;
	}
}

/* Sets ECE on a segment of the guest that must report a mark. `exact`: the result of
 * uc_exact_reports() for the segment. */
static __always_inline void uc_feedback_write(const struct uc_flow *flow, __u8 exact,
					      struct uc_edit *edit)
{
	__u8 marked = uc_way_of(flow) == UC_WAY_EXACT ? exact : uc_classic_reports(flow);

	if (marked && edit->flags & UC_ACK)
		edit->flags |= UC_ECE;
}

#endif
