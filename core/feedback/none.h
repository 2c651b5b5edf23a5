/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * No feedback: segments without ECE and CWR, while the ends have not agreed on ECN, and towards a
 * guest for which the host has negotiated ECN.
 */
#ifndef UC_FEEDBACK_NONE_H
#define UC_FEEDBACK_NONE_H

#include "../edit.h"

/* The flags by which ends negotiate ECN and give feedback (RFC 3168 §6.1). */
#define UC_FEEDBACK_FLAGS (UC_ECE | UC_CWR)

/* Clears ECE and CWR: the segment neither offers ECN nor reports a mark or a reduction. */
static __always_inline void uc_clear_feedback(struct uc_edit *edit)
{
	edit->flags &= ~UC_FEEDBACK_FLAGS;
}

/* Returns whether ECE or CWR is set in the edited segment. */
static __always_inline __u8 uc_says_feedback(const struct uc_edit *edit)
{
	return !!(edit->flags & UC_FEEDBACK_FLAGS);
}

#endif
