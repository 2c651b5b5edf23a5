/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A port that drains: its operator takes it off, but the peers with which it negotiated ECN for its
 * guest go on sending ECT. RFC 3168 §6.1.3 asks for an echo of each mark as long as they do. So a
 * flow that leaves keeps its echo: no window is written, strict mode drops none of its data, and
 * the guest's data are not ECT. Its shadow is still updated, for a return to translation if the
 * port is attached again. A test of its path (distrust.h) ends, since it needs ECT data.
 */
#ifndef UC_LEAVE_H
#define UC_LEAVE_H

#include "distrust.h"

/* In uc_policy.ecn_syns, which no flow reads after its handshake, a flow that leaves stores its
 * modes, and in place of UC_MODE_OBSERVE, which it never has, whether it was held. */
#define UC_LEFT_HELD UC_MODE_OBSERVE

/*
 * Lets an established flow leave translation. Returns 0 if the platform must forget it: strict mode
 * has adopted it, so nobody was promised an echo; otherwise 1. A flow in its handshake stays as it
 * is: the platform tries again later.
 */
static __always_inline __u8 uc_leave(struct uc_flow *flow)
{
	__u8 held = flow->bits & UC_FLOW_HELD ? UC_LEFT_HELD : 0;

	if (flow->bits & UC_FLOW_ADOPTED)
		return 0;
	if (flow->stage != UC_TRANSLATING || flow->bits & UC_FLOW_LEAVES || uc_only_echoes(flow) ||
	    uc_observes(&flow->policy))
		return 1;
	if (uc_trial_of(flow) != UC_TRIAL_NONE)
		uc_distrust_moved(flow);
	flow->policy.ecn_syns = flow->policy.modes | held;
	flow->policy.modes = (flow->policy.modes & ~UC_MODE_STRICT) | UC_MODE_NO_ECT;
	flow->bits |= UC_FLOW_LEAVES | UC_FLOW_HELD;
	return 1;
}

/* Lets a flow that has left translation return to it; any other flow stays as it is. */
static __always_inline void uc_return(struct uc_flow *flow)
{
	if (!(flow->bits & UC_FLOW_LEAVES))
		return;
	flow->bits &= ~UC_FLOW_LEAVES;
	if (!(flow->policy.ecn_syns & UC_LEFT_HELD))
		flow->bits &= ~UC_FLOW_HELD;
	flow->policy.modes = flow->policy.ecn_syns & ~UC_LEFT_HELD;
}

#endif
