// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Symbols for PVTCP.
#include "steal.h"

__u32 uc_shim_steal_tick(struct uc_steal_clock *clock, const struct uc_steal_policy *policy,
			 __u64 tick, __u64 expected_tick);
__u8 uc_shim_steal_is_spiked(const struct uc_steal_clock *clock, __u64 tick);
__u8 uc_shim_steal_defers(struct uc_steal_clock *clock, const struct uc_steal_policy *policy,
			  struct uc_steal_timer *timer, __u32 kind, __u64 due_tick, __u64 tick);
__u32 uc_shim_steal_rtt(struct uc_steal_clock *clock, const struct uc_steal_policy *policy,
			__u64 sent_tick, __u64 tick);

__u32 uc_shim_steal_tick(struct uc_steal_clock *clock, const struct uc_steal_policy *policy,
			 __u64 tick, __u64 expected_tick)
{
	return uc_steal_tick(clock, policy, tick, expected_tick);
}

__u8 uc_shim_steal_is_spiked(const struct uc_steal_clock *clock, __u64 tick)
{
	return uc_steal_is_spiked(clock, tick);
}

__u8 uc_shim_steal_defers(struct uc_steal_clock *clock, const struct uc_steal_policy *policy,
			  struct uc_steal_timer *timer, __u32 kind, __u64 due_tick, __u64 tick)
{
	return uc_steal_defers(clock, policy, timer, kind, due_tick, tick);
}

__u32 uc_shim_steal_rtt(struct uc_steal_clock *clock, const struct uc_steal_policy *policy,
			__u64 sent_tick, __u64 tick)
{
	return uc_steal_rtt(clock, policy, sent_tick, tick);
}
