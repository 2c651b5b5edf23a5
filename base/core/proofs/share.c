/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flows that share a window: the report, and the window by the group's answer. The answer is
 * arbitrary, and so is what other CPUs have done to the flow since the ACK.
 */
#include "window.h"

struct uc_ccc_answer any_answer(void);

int main(void)
{
	struct uc_flow flow = sound_flow();
	struct uc_segment segment = any_segment();
	struct uc_edit edit = uc_edit_none(&segment);
	struct uc_ccc_answer answer = any_answer();
	struct uc_ccc_report report;
	__u8 awaits, was_awaits = any_byte();

	assume(flow.stage == UC_TRANSLATING && uc_is_coupled(&flow));
	if (any_byte()) {
		awaits = uc_awaits(&flow);
		report = uc_coupled_report(&flow, &annex, any_long());
		prove("what a report says is within its own bounds",
		      report.mss_bytes == flow.mss_bytes && report.state <= UC_CCC_BACKOFF &&
			      report.cwnd_bytes <= UC_INFINITE_SSTHRESH &&
			      awaits <= (UC_AWAITS_SHARE | UC_AWAITS_DUPLICATE));
	} else {
		/* the guest has not sent 2 GiB since the ACK */
		assume(uc_flight_bytes(&flow) <= 0x7fffffff);
		/* translate.c proves that a duplicate has data in flight; only another ACK of new
		 * data takes it out */
		assume(!(was_awaits & UC_AWAITS_DUPLICATE) || segment.ack != flow.snd_una ||
		       uc_flight_bytes(&flow));
		uc_tell_share(&flow, &annex, &segment, was_awaits, any_byte() ? &answer : 0, &edit);
		prove_bounds(&segment, &edit);
		if (!uc_after(segment.ack, flow.snd_nxt))
			prove_no_shrink(&flow, &segment, &edit);
	}
	prove("the flow stays sound", is_sound(&flow));
	return 0;
}
