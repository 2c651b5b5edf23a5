/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The coupled congestion controller in the kernel, alone: a packet is a call, and comes back as the
 * answer. The group's lock is held around the whole of each call, as a home would hold it.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../../../core/coupling.h"

enum { CALL_OPEN, CALL_REGISTER, CALL_UPDATE, CALL_ASK, CALL_LEAVE };

struct call {
	__u64 now_ns;
	__u32 what;
	__u32 guest;
	__u32 flow;
	__u32 priority;
	struct uc_ccc_report report;
	struct uc_ccc_policy policy;
};

struct group {
	struct bpf_spin_lock lock;
	struct uc_ccc ccc;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, struct uc_ccc_guest);
} guests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 32);
	__type(key, __u32);
	__type(value, struct uc_ccc_flow);
} flows SEC(".maps");

SEC("tc")
int call_ccc(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct call call = {};
	struct uc_ccc_answer answer = {};
	struct group *group = bpf_map_lookup_elem(&groups, &zero);
	struct uc_ccc_guest *guest;
	struct uc_ccc_flow *flow;

	if (bpf_skb_load_bytes(skb, 0, &call, sizeof(call)))
		return 1;
	guest = bpf_map_lookup_elem(&guests, &call.guest);
	flow = bpf_map_lookup_elem(&flows, &call.flow);
	if (!group || !guest || !flow)
		return 2;
	bpf_spin_lock(&group->lock);
	if (call.what == CALL_OPEN)
		uc_ccc_open(&group->ccc, &call.policy, call.now_ns);
	else if (call.what == CALL_REGISTER)
		answer = uc_ccc_register(&group->ccc, guest, flow, call.priority, &call.report,
					 call.now_ns);
	else if (call.what == CALL_UPDATE)
		answer = uc_ccc_update(&group->ccc, guest, flow, &call.report, call.now_ns);
	else if (call.what == CALL_ASK)
		answer = uc_ccc_ask(&group->ccc, guest, flow, call.now_ns);
	else
		uc_ccc_leave(&group->ccc, guest, flow, call.now_ns);
	bpf_spin_unlock(&group->lock);
	return bpf_skb_store_bytes(skb, 0, &answer, sizeof(answer), 0) ? 3 : 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
