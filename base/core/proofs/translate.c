/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Any segment but a SYN: the arithmetic is defined, and the invariant stays. */
#include "state.h"

int main(void)
{
	struct uc_flow flow = sound_flow(), before = flow;
	struct uc_segment segment = any_segment();
	struct uc_edit edit;
	enum uc_reason reason = uc_translate(&flow, &annex, &segment, any_long(), &edit);

	prove("the flow stays sound", uc_forgets(reason) || is_sound(&flow));
	prove("a duplicate ACK leaves data in flight", before.bits & UC_FLOW_DUPLICATE ||
							       !(flow.bits & UC_FLOW_DUPLICATE) ||
							       uc_flight_bytes(&flow));
	return 0;
}
