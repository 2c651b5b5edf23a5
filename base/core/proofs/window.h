/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Invariant "no shrink", as claims about an edit. */
#ifndef UC_PROOF_WINDOW_H
#define UC_PROOF_WINDOW_H

#include "state.h"

/* States that the window is at most the receiver's, and 0 only if the receiver's is. */
static void prove_bounds(const struct uc_segment *segment, const struct uc_edit *edit)
{
	prove("a window is never above the receiver's", edit->window <= segment->window);
	prove("a window is 0 only if the receiver's is", edit->window || !segment->window);
}

/* States that the window ends at or behind SND.NXT, unless the receiver's own does not. */
static void prove_no_shrink(const struct uc_flow *flow, const struct uc_segment *segment,
			    const struct uc_edit *edit)
{
	__u64 sent_bytes = (__u32)(flow->snd_nxt - segment->ack);
	__u64 own_bytes = (__u64)segment->window << uc_wscale(flow);

	prove("a window ends no earlier than what the guest has sent",
	      edit->window == segment->window || own_bytes < sent_bytes ||
		      (__u64)edit->window << uc_wscale(flow) >= sent_bytes);
}

#endif
