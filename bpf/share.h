/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Law `coupled`: an ACK to the guest whose window is its group's to say. The port's program has
 * parsed it and moved the flow's shadow; the rest is a program of its own, which it ends with: the
 * stack of one has no room for both. What they share lies in `pending`, one for each CPU: from the
 * one to the other a packet isn't interrupted by the next.
 *
 * A CPU holds one lock at a time, so the flow's and the group's are taken in turn. Meanwhile
 * another CPU may do the same for a later ACK of this flow (core.h knows); and what was the flow
 * may have been forgotten.
 */
#ifndef UC_SHARE_H
#define UC_SHARE_H

#include "groups.h"
#include "packet.h"

struct uc_pending {
	struct uc_key key;
	struct uc_segment segment;
	struct uc_offsets at;
	struct uc_edit edit;
	struct uc_ccc_report report;
	struct uc_ccc_answer answer;
	__u64 now_ns;
	__u32 place;
	__u8 awaits;
	__u8 closed;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_pending);
} pending SEC(".maps");

/* User space puts uc_share_port in. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} endings SEC(".maps");

static __always_inline struct uc_pending *uc_pending_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pending, &zero);
}

/* The port's program ends here, unless the other is not there (any more): then it writes what it
 * has, and the guest is given the receiver's window. */
static __always_inline void uc_end_in_share(struct __sk_buff *skb, const struct uc_key *key,
					    const struct uc_segment *segment,
					    const struct uc_offsets *at, const struct uc_edit *edit,
					    __u8 awaits, __u64 now_ns)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return;
	now->key = *key;
	now->segment = *segment;
	now->at = *at;
	now->edit = *edit;
	now->awaits = awaits;
	now->now_ns = now_ns;
	bpf_tail_call(skb, &endings, 0);
}

static __always_inline struct uc_member *uc_member_at(__u32 place)
{
	struct uc_member *member = bpf_map_lookup_elem(&members, &place);
	struct uc_member fresh = {};

	if (member)
		return member;
	bpf_map_update_elem(&members, &place, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&members, &place);
}

/* A flow is entered, or begins anew: whose place it has was another member. */
static __always_inline void uc_forget_member(__u32 place)
{
	bpf_map_delete_elem(&members, &place);
}

/*
 * These two are functions of their own, and not static: the verifier looks at each once, for any
 * packet, instead of with all that the caller knows. 1: the member has places in a group.
 */
__attribute__((noinline)) int uc_join_group(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_port_coupling *policy;
	struct uc_ccc_flow fresh = {};
	struct uc_member *member;

	/* an argument nobody needs; but without one it isn't a global function */
	if (!skb || !now)
		return 0;
	policy = bpf_map_lookup_elem(&couplings, &now->key.port);
	if (!policy)
		return 0;
	member = uc_member_at(now->place);
	if (!member || member->refusals >= UC_REFUSALS_MAX)
		return 0;
	member->refusals++;
	uc_name_group(policy, &now->key, &member->key);
	if (!uc_find_group(&member->key, &policy->rules, now->now_ns, &member->group) ||
	    !uc_find_guest(&member->key, now->key.port, now->now_ns, &member->guest))
		return 0;
	member->weight = policy->weight;
	member->priority = uc_priority_of(&now->key, policy->priority);
	member->flow = fresh;
	member->refusals = 0;
	member->joined = 1;
	return 1;
}

/* 1: there is an answer. */
__attribute__((noinline)) int uc_ask_group(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_group_guest *guest;
	struct uc_member *member;
	struct uc_group *group;
	int lost;

	if (!skb || !now)
		return 0;
	member = bpf_map_lookup_elem(&members, &now->place);
	if (!member)
		return 0;
	group = bpf_map_lookup_elem(&groups, &member->group);
	guest = bpf_map_lookup_elem(&guests, &member->guest);
	if (!group || !guest)
		return 0;
	bpf_spin_lock(&group->lock);
	lost = !uc_is_same_group(&group->key, &member->key) ||
	       !uc_is_same_group(&guest->key, &member->key) || guest->port != now->key.port;
	if (!lost) {
		group->used_ns = now->now_ns;
		guest->used_ns = now->now_ns;
		if (now->closed) {
			uc_ccc_leave(&group->ccc, &guest->ccc, &member->flow, now->now_ns);
		} else if (member->flow.priority) {
			now->answer = uc_ccc_update(&group->ccc, &guest->ccc, &member->flow,
						    &now->report, now->now_ns);
		} else {
			guest->ccc.weight = member->weight;
			now->answer = uc_ccc_register(&group->ccc, &guest->ccc, &member->flow,
						      member->priority, &now->report, now->now_ns);
		}
	}
	bpf_spin_unlock(&group->lock);
	if (lost)
		member->joined = 0;
	return !lost && !now->closed;
}

/* The flow's group has its word. 1: there is an answer. */
static __always_inline int uc_hear_member(struct __sk_buff *skb, struct uc_pending *now)
{
	struct uc_member *member = bpf_map_lookup_elem(&members, &now->place);

	if (!member || !member->joined) {
		if (now->closed || !uc_join_group(skb))
			return 0;
	}
	return uc_ask_group(skb);
}

static __always_inline enum uc_reason uc_share(struct __sk_buff *skb, struct uc_pending *now)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &now->key);
	int answered;

	if (slot) {
		bpf_spin_lock(&slot->lock);
		now->place = slot->place;
		now->closed = uc_is_closed(&slot->flow);
		now->report = uc_coupled_report(&slot->flow, now->now_ns);
		bpf_spin_unlock(&slot->lock);
		answered = uc_hear_member(skb, now);
		bpf_spin_lock(&slot->lock);
		uc_tell_share(&slot->flow, &now->segment, now->awaits,
			      answered ? &now->answer : NULL, &now->edit);
		bpf_spin_unlock(&slot->lock);
	}
	if (uc_write(skb, &now->at, &now->segment, &now->edit))
		return UC_EDIT_FAILED;
	return UC_TRANSLATED;
}

#endif
