/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Segments that may begin a flow: SYNs, answers to them, and what a strict port adopts. The
 * invariant begins to hold, and stays. PROOF_KNOWN: the flow was in the table; otherwise none was.
 */
#include "state.h"

struct uc_kept_syn any_kept(void);

#ifdef PROOF_KNOWN
/* Calls what platforms call for a flow in the table. */
static enum uc_reason begin(struct uc_flow *flow, const struct uc_policy *policy,
			    const struct uc_segment *segment, __u64 now_ns, struct uc_edit *edit)
{
	if (any_byte())
		return uc_open(flow, &annex, policy, segment, now_ns, edit);
	return uc_reopen(flow, &annex, policy, segment, now_ns, edit);
}
#else
/* Calls what platforms call for a flow that is not in the table; `flow` is zeroed. */
static enum uc_reason begin(struct uc_flow *flow, const struct uc_policy *policy,
			    const struct uc_segment *segment, __u64 now_ns, struct uc_edit *edit)
{
	struct uc_kept_syn kept = any_kept();

	switch (any_byte()) {
	case 0:
		return uc_open_asked(flow, &annex, policy, &kept, segment, now_ns, edit);
	case 1:
		return uc_adopt(flow, &annex, policy, segment, now_ns, edit);
	case 2:
		*edit = uc_edit_none(segment);
		return uc_begin_asked(flow, &annex, policy, &kept, now_ns) ? UC_TRANSLATED
									   : UC_NO_POLICY;
	default:
		return uc_open(flow, &annex, policy, segment, now_ns, edit);
	}
}
#endif

int main(void)
{
	struct uc_policy policy = any_policy();
	struct uc_segment segment = any_segment();
	struct uc_edit edit;
	enum uc_reason reason;
#ifdef PROOF_KNOWN
	struct uc_flow flow = sound_flow();
#else
	struct uc_flow flow = {};
#endif

	set_law(&policy);
	reason = begin(&flow, &policy, &segment, any_long(), &edit);
#ifdef PROOF_KNOWN
	assume(!uc_forgets(reason));
#else
	/* any other reason: the platform enters no flow */
	assume(reason == UC_TRANSLATED || reason == UC_HELD);
#endif
	prove("the flow is sound after a SYN and after its answer", is_sound(&flow));
	prove("alpha is at most 1", uc_is_fraction(&flow.dctcp) || !has_fraction());
	prove("a SYN keeps its window", edit.window == segment.window);
	return 0;
}
