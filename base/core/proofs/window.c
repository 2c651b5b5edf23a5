/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Windows that uc_translate() writes: no shrink. */
#include "window.h"

int main(void)
{
	struct uc_flow flow = sound_flow(), before = flow;
	struct uc_segment segment = any_segment();
	struct uc_edit edit;
	enum uc_reason reason = uc_translate(&flow, &annex, &segment, any_long(), &edit);

	prove_bounds(&segment, &edit);
	if (segment.direction == UC_FROM_GUEST || uc_observes(&flow.policy) ||
	    (reason != UC_TRANSLATED && reason != UC_RESYNCED))
		prove("the window of the guest, and of a flow that is not written, stays",
		      edit.window == segment.window);
	/* a SYN-ACK of a known connection advertises no window (RFC 9293 §3.10.7.4) */
	else if (!(segment.flags & UC_SYN))
		prove_no_shrink(&flow, &segment, &edit);
	else if (before.stage == UC_SYN_SENT)
		prove("a SYN-ACK's window holds two segments, or is the receiver's",
		      edit.window == segment.window || edit.window >= 2 * flow.mss_bytes ||
			      edit.window == UC_UNSCALED_MAX);
	return 0;
}
