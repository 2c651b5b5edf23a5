// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The host's duplicate ACKs, for callers in Rust.
#include "dupack.h"

__u64 uc_shim_dupack_due_ns(const struct uc_dupack *dupack, const struct uc_dupack_policy *policy,
			    const struct uc_whole *flow);
__u32 uc_shim_dupack_take(struct uc_dupack *dupack, const struct uc_dupack_policy *policy,
			  const struct uc_whole *flow, __u64 now_ns);
void uc_shim_dupack_segment(const struct uc_whole *flow, struct uc_segment *segment);

__u64 uc_shim_dupack_due_ns(const struct uc_dupack *dupack, const struct uc_dupack_policy *policy,
			    const struct uc_whole *flow)
{
	return uc_dupack_due_ns(dupack, policy, &flow->flow);
}

__u32 uc_shim_dupack_take(struct uc_dupack *dupack, const struct uc_dupack_policy *policy,
			  const struct uc_whole *flow, __u64 now_ns)
{
	return uc_dupack_take(dupack, policy, &flow->flow, now_ns);
}

void uc_shim_dupack_segment(const struct uc_whole *flow, struct uc_segment *segment)
{
	*segment = uc_dupack_segment(&flow->flow);
}
