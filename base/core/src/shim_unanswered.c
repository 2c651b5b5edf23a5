// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Symbols for marks on data of flows that a port does not know.
#include "unanswered.h"

void uc_shim_hear_segment(struct uc_marked *marked, const struct uc_segment *segment, __u64 now_ns);
__u8 uc_shim_is_marked_data(const struct uc_segment *segment);
__u8 uc_shim_is_unanswered(struct uc_marked *marked, const struct uc_segment *segment,
			   __u64 now_ns);
__u8 uc_shim_drops_unanswered(struct uc_marked *marked, const struct uc_policy *policy,
			      const struct uc_segment *segment);

void uc_shim_hear_segment(struct uc_marked *marked, const struct uc_segment *segment, __u64 now_ns)
{
	uc_hear_segment(marked, segment, now_ns);
}

__u8 uc_shim_is_marked_data(const struct uc_segment *segment)
{
	return uc_is_marked_data(segment);
}

__u8 uc_shim_is_unanswered(struct uc_marked *marked, const struct uc_segment *segment, __u64 now_ns)
{
	return uc_is_unanswered(marked, segment, now_ns);
}

__u8 uc_shim_drops_unanswered(struct uc_marked *marked, const struct uc_policy *policy,
			      const struct uc_segment *segment)
{
	return uc_drops_unanswered(marked, policy, segment);
}
