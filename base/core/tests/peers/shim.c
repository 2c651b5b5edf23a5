// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Symbols for the two peers of the coupled congestion controller.
#include "lisa.h"
#include "manager.h"

void uc_shim_lisa_register(struct uc_lisa *lisa, struct uc_lisa_flow *flow, __u64 id,
			   const struct uc_ccc_report *report, struct uc_ccc_answer *answer);
void uc_shim_lisa_update(struct uc_lisa *lisa, const struct uc_lisa_flow *flow,
			 const struct uc_ccc_report *report, struct uc_ccc_answer *answer);
void uc_shim_lisa_leave(struct uc_lisa *lisa, struct uc_lisa_flow *flow);
void uc_shim_manager_register(struct uc_manager *manager, struct uc_manager_flow *flow,
			      const struct uc_ccc_report *report, struct uc_ccc_answer *answer);
void uc_shim_manager_update(struct uc_manager *manager, struct uc_manager_flow *flow,
			    const struct uc_ccc_report *report, __u64 now_ns,
			    struct uc_ccc_answer *answer);
void uc_shim_manager_leave(struct uc_manager *manager, struct uc_manager_flow *flow);

_Static_assert(sizeof(struct uc_lisa) == 16 && sizeof(struct uc_lisa_flow) == 8 &&
		       sizeof(struct uc_manager) == 24 && sizeof(struct uc_manager_flow) == 2,
	       "sizes of the structs in mod.rs");

void uc_shim_lisa_register(struct uc_lisa *lisa, struct uc_lisa_flow *flow, __u64 id,
			   const struct uc_ccc_report *report, struct uc_ccc_answer *answer)
{
	*answer = uc_lisa_register(lisa, flow, id, report);
}

void uc_shim_lisa_update(struct uc_lisa *lisa, const struct uc_lisa_flow *flow,
			 const struct uc_ccc_report *report, struct uc_ccc_answer *answer)
{
	*answer = uc_lisa_update(lisa, flow, report);
}

void uc_shim_lisa_leave(struct uc_lisa *lisa, struct uc_lisa_flow *flow)
{
	uc_lisa_leave(lisa, flow);
}

void uc_shim_manager_register(struct uc_manager *manager, struct uc_manager_flow *flow,
			      const struct uc_ccc_report *report, struct uc_ccc_answer *answer)
{
	*answer = uc_manager_register(manager, flow, report);
}

void uc_shim_manager_update(struct uc_manager *manager, struct uc_manager_flow *flow,
			    const struct uc_ccc_report *report, __u64 now_ns,
			    struct uc_ccc_answer *answer)
{
	*answer = uc_manager_update(manager, flow, report, now_ns);
}

void uc_shim_manager_leave(struct uc_manager *manager, struct uc_manager_flow *flow)
{
	uc_manager_leave(manager, flow);
}
