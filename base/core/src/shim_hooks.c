// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Symbols for the hooks of a port.
#include "hooks.h"

void uc_shim_hook_saw(struct uc_hooks *hooks, const struct uc_segment *segment, __u64 now_ns);
void uc_shim_hook_unread(struct uc_hooks *hooks, __u64 now_ns);
void uc_shim_hook_missed(struct uc_hooks *hooks, __u64 now_ns);
__u8 uc_shim_is_blind(const struct uc_hooks *hooks, __u32 direction);
__u8 uc_shim_hooks_ask(const struct uc_hooks *hooks, __u64 now_ns);
__u8 uc_shim_is_missed(const struct uc_whole *flow, const struct uc_segment *segment);

void uc_shim_hook_saw(struct uc_hooks *hooks, const struct uc_segment *segment, __u64 now_ns)
{
	uc_hook_saw(hooks, segment, now_ns);
}

void uc_shim_hook_unread(struct uc_hooks *hooks, __u64 now_ns)
{
	uc_hook_unread(hooks, now_ns);
}

void uc_shim_hook_missed(struct uc_hooks *hooks, __u64 now_ns)
{
	uc_hook_missed(hooks, now_ns);
}

__u8 uc_shim_is_blind(const struct uc_hooks *hooks, __u32 direction)
{
	return uc_is_blind(hooks, direction);
}

__u8 uc_shim_hooks_ask(const struct uc_hooks *hooks, __u64 now_ns)
{
	return uc_hooks_ask(hooks, now_ns);
}

__u8 uc_shim_is_missed(const struct uc_whole *flow, const struct uc_segment *segment)
{
	return uc_is_missed(&flow->flow, segment);
}
