/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Classic feedback (RFC 3168): ECE on each ACK from the mark until the sender's CWR, so that the
 * loss of an ACK loses no signal.
 */
#ifndef UC_FEEDBACK_CLASSIC_H
#define UC_FEEDBACK_CLASSIC_H

#include "../flow.h"
#include "none.h"

/* Returns whether a SYN offers ECN (§6.1.1). */
static __always_inline __u8 uc_classic_offers(const struct uc_segment *syn)
{
	return (syn->flags & UC_FEEDBACK_FLAGS) == UC_FEEDBACK_FLAGS;
}

/* Makes a SYN offer ECN. */
static __always_inline void uc_classic_offer(struct uc_edit *edit)
{
	edit->flags |= UC_FEEDBACK_FLAGS;
}

/* Returns whether a SYN-ACK agrees to ECN: ECE without CWR (§6.1.1). */
static __always_inline __u8 uc_classic_agrees(const struct uc_segment *syn_ack)
{
	return (syn_ack->flags & UC_FEEDBACK_FLAGS) == UC_ECE;
}

/* Makes a SYN-ACK agree to ECN. */
static __always_inline void uc_classic_agree(struct uc_edit *edit)
{
	edit->flags = (edit->flags & ~UC_CWR) | UC_ECE;
}

/* Returns whether an ACK of the peer reports a mark. */
static __always_inline __u8 uc_classic_read(const struct uc_segment *ack)
{
	return ack->flags / UC_ECE & 1;
}

/* Returns how many of the bytes that an ACK acknowledges count as marked: all or none. */
static __always_inline __u32 uc_classic_bytes(__u8 reports, __u32 acked_bytes)
{
	return acked_bytes & -(__u32)reports;
}

/* Processes CWR on data for the guest: the ECE echo ends (§6.1.3). A mark on the same packet starts
 * it again. */
static __always_inline void uc_classic_reduced(struct uc_flow *flow)
{
	flow->feedback &= ~UC_FEEDBACK_MARKED;
}

/* Processes a CE mark on data for the guest: the guest's ACKs get ECE until the peer's CWR. */
static __always_inline void uc_classic_marked(struct uc_flow *flow)
{
	flow->feedback |= UC_FEEDBACK_MARKED;
}

/* Returns whether the guest's ACK must report a mark. */
static __always_inline __u8 uc_classic_reports(const struct uc_flow *flow)
{
	return !!(flow->feedback & UC_FEEDBACK_MARKED);
}

/* Sets CWR on the guest's new data if the window was reduced since the last CWR (§6.1.2); with
 * `always` in any case. */
static __always_inline void uc_classic_confirm(struct uc_flow *flow, __u8 always,
					       struct uc_edit *edit)
{
	if (!(flow->feedback & UC_FEEDBACK_REDUCED) && !always)
		return;
	edit->flags |= UC_CWR;
	flow->feedback &= ~UC_FEEDBACK_REDUCED;
}

#endif
