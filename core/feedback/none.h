/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * No feedback: what a header says while its ends have not agreed on ECN, and what the guest sees of
 * a feedback that the host has agreed to in its name.
 */
#ifndef UC_FEEDBACK_NONE_H
#define UC_FEEDBACK_NONE_H

#include "../edit.h"

/* The flags by which ends negotiate ECN and give feedback (RFC 3168 §6.1). */
#define UC_FEEDBACK_FLAGS (UC_ECE | UC_CWR)

/* Clears what the segment says: neither an offer, nor a mark, nor a reduction. */
static __always_inline void uc_clear_feedback(struct uc_edit *edit)
{
	edit->flags &= ~UC_FEEDBACK_FLAGS;
}

/* Returns whether the segment, as it is edited, says anything. */
static __always_inline __u8 uc_says_feedback(const struct uc_edit *edit)
{
	return !!(edit->flags & UC_FEEDBACK_FLAGS);
}

#endif
