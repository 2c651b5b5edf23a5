/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flows that share a window: an ACK to the guest whose window the flow's group decides. The port's
 * program has parsed the ACK, updated the shadow and made the report; uc_share_port asks the group
 * and writes the answer. ARCHITECTURE.md has a state diagram ("Shared windows").
 *
 * A CPU holds one lock at a time: the flow's, then the group's, then the flow's again. Meanwhile
 * another CPU may do the same for a later ACK of this flow (uc_tell_share() in core.h allows for
 * it), and the flow may have begun again or have been removed from the table. Then its group gets
 * one report of the connection before.
 */
#ifndef UC_SHARE_H
#define UC_SHARE_H

#include "groups.h"
#include "rules.h"

static __always_inline struct uc_member *uc_member_at(__u32 place)
{
	const struct uc_member fresh = {};

	return uc_find_or_add(&members, &place, &fresh);
}

/* Copies the weights that policy gives the member now. */
static __always_inline void uc_weigh_member(struct uc_member *member, const struct uc_pending *now,
					    const struct uc_port_coupling *policy)
{
	member->weight = policy->weight;
	member->priority = uc_weight_of(&now->key, now->report.share, policy);
	member->version = policy->version;
}

/*
 * Finds or makes the member's group and guest. Returns 1 if the member has places for both.
 *
 * This function and the other noinline ones are global, so the verifier checks each once, for any
 * argument, and not once for each state of a caller.
 */
__attribute__((noinline)) int uc_join_group(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_port_coupling *policy;
	struct uc_ccc_flow fresh = {};
	struct uc_member *member;

	/* unused, but a global function needs an argument */
	if (!skb || !now)
		return 0;
	policy = bpf_map_lookup_elem(&couplings, &now->key.ifindex);
	if (!policy)
		return 0;
	member = uc_member_at(now->place);
	if (!member || member->refusals >= UC_REFUSALS_MAX)
		return 0;
	member->refusals++;
	uc_name_group(policy, &now->key, &member->key);
	if (!uc_find_group(&member->key, &policy->rules, now->now_ns, &member->group) ||
	    !uc_find_guest(&member->key, now->key.ifindex, now->now_ns, &member->guest))
		return 0;
	uc_weigh_member(member, now, policy);
	member->flow = fresh;
	member->refusals = 0;
	member->joined = 1;
	return 1;
}

/*
 * Updates a member's weights after a change of policy; they apply from its next ACK on. Only the
 * weight is taken from the rule that a SYN of the flow would match now. Returns 1 if they changed.
 */
__attribute__((noinline)) int uc_weigh_again(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_opening *how = uc_opening_now();
	struct uc_port_coupling *policy;
	struct uc_member *member;

	if (!skb || !now || !how)
		return 0;
	policy = bpf_map_lookup_elem(&couplings, &now->key.ifindex);
	member = bpf_map_lookup_elem(&members, &now->place);
	if (!policy || !member || member->version == policy->version)
		return 0;
	now->frame.dscp = now->report.dscp;
	if (now->report.share && uc_find_rule(skb) && how->share)
		now->report.share = how->share;
	uc_weigh_member(member, now, policy);
	return 1;
}

/* Returned by uc_ask(): there is no answer yet, because uc_join_port must run first. */
#define UC_TO_BE_HEARD 2

/* Returns whether the member has the weights of a policy that is no longer in force. */
static __always_inline int uc_is_outweighed(const struct uc_member *member,
					    const struct uc_pending *now)
{
	const struct uc_port_coupling *policy = bpf_map_lookup_elem(&couplings, &now->key.ifindex);

	return policy && policy->version != member->version;
}

/* Returns whether uc_join_port must run first: to find a group, to register, or to update weights.
 */
static __always_inline int uc_is_to_be_heard(const struct uc_member *member,
					     const struct uc_pending *now)
{
	if (now->heard || now->report.closed)
		return 0;
	if (member && member->joined)
		return !member->flow.priority || uc_is_outweighed(member, now);
	return !member || member->refusals < UC_REFUSALS_MAX;
}

/* Reports to the group: registers the member, removes it if the connection has closed, or updates
 * it. Returns 1: `answer` in `pending` holds the group's answer; 0: there is none; or
 * UC_TO_BE_HEARD. */
static __always_inline int uc_ask(struct __sk_buff *skb, __u8 registers)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_group_guest *guest;
	struct uc_member *member;
	struct uc_group *group;
	int lost;

	if (!skb || !now)
		return 0;
	member = bpf_map_lookup_elem(&members, &now->place);
	if (!registers && uc_is_to_be_heard(member, now))
		return UC_TO_BE_HEARD;
	if (!member || !member->joined)
		return 0;
	group = bpf_map_lookup_elem(&groups, &member->group);
	guest = bpf_map_lookup_elem(&guests, &member->guest);
	if (!group || !guest)
		return 0;
	bpf_spin_lock(&group->lock);
	lost = !uc_is_same_group(&group->key, &member->key) ||
	       !uc_is_same_group(&guest->key, &member->key) || guest->ifindex != now->key.ifindex;
	if (!lost) {
		group->used_ns = now->now_ns;
		guest->used_ns = now->now_ns;
		guest->ccc.weight = member->weight;
		if (registers) {
			now->answer =
				uc_ccc_register(&group->ccc, &guest->ccc, &member->flow,
						member->priority, &now->report.ccc, now->now_ns);
		} else if (now->report.closed) {
			uc_ccc_leave(&group->ccc, &guest->ccc, &member->flow, now->now_ns);
		} else {
			/* priority 0: not registered, and stays so */
			if (member->flow.priority)
				member->flow.priority = member->priority;
			now->answer = uc_ccc_update(&group->ccc, &guest->ccc, &member->flow,
						    &now->report.ccc, now->now_ns);
		}
	}
	bpf_spin_unlock(&group->lock);
	if (lost)
		member->joined = 0;
	return !lost && !now->report.closed;
}

/* Reports to the group of a registered member, unless uc_join_port must run first. It and
 * uc_enter_group() are in different programs: together they exceed what the verifiers of older
 * kernels check. */
__attribute__((noinline)) int uc_ask_group(struct __sk_buff *skb)
{
	return uc_ask(skb, 0);
}

/* Registers the member with its group. Returns 1 if `answer` holds the group's answer. */
__attribute__((noinline)) int uc_enter_group(struct __sk_buff *skb)
{
	return uc_ask(skb, 1);
}

/* Joins the flow to a group or updates its weights, then tail-calls uc_share_port again. It is
 * rare, so it has a program of its own (uc_join_port). */
static __always_inline void uc_hear(struct __sk_buff *skb, struct uc_pending *now)
{
	struct uc_member *member = bpf_map_lookup_elem(&members, &now->place);

	if (member && member->joined)
		uc_weigh_again(skb);
	else
		uc_join_group(skb);
	member = bpf_map_lookup_elem(&members, &now->place);
	if (member && member->joined && !member->flow.priority)
		now->answered = uc_enter_group(skb);
	bpf_tail_call(skb, &tail_calls, UC_CALL_SHARE);
}

/* Asks the flow's group, after uc_join_port if that has to run first. Returns 1 if `answer` holds
 * its answer. */
static __always_inline int uc_ask_for_member(struct __sk_buff *skb, struct uc_pending *now)
{
	int answered;

	if (now->answered)
		return 1;
	answered = uc_ask_group(skb);
	if (answered != UC_TO_BE_HEARD)
		return answered;
	now->heard = 1;
	bpf_tail_call(skb, &tail_calls, UC_CALL_JOIN);
	return uc_ask_group(skb);
}

/* Makes the report that the group gets; a loss is reported once. Called by the port's program,
 * under the flow's lock. */
static __always_inline void uc_report_share(struct uc_slot *slot, struct uc_annex *annex,
					    struct uc_known *known, __u64 now_ns)
{
	known->report.closed = uc_leaves_group(&slot->flow);
	known->report.share = slot->flow.share;
	known->report.dscp = slot->dscp;
	known->report.ccc = uc_coupled_report(&slot->flow, annex, now_ns);
}

/* Turns the group's answer into the ACK's window. Called under the flow's lock. */
static __always_inline void uc_share_told(struct uc_slot *slot, struct uc_annex *annex,
					  struct uc_pending *now, int answered)
{
	/* a flow that was reopened meanwhile has the weight of its new rule */
	if (slot->flow.share == now->was)
		slot->flow.share = now->report.share;
	uc_tell_share(&slot->flow, annex, &now->segment, now->awaits,
		      answered && uc_is_coupled(&slot->flow) ? &now->answer : NULL, &now->edit);
	now->has_news = uc_has_news(slot, annex);
}

static __always_inline enum uc_reason uc_share(struct __sk_buff *skb, struct uc_pending *now)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &now->place);
	__u32 annex_place = slot ? uc_annex_place(slot, now->place) : UC_NO_PLACE;
	struct uc_annex *annex = uc_annex_at(annex_place);
	int answered;

	/* without an annex the flow has begun again, under a rule by which it shares nothing */
	if (slot && annex && annex_place != now->place) {
		answered = uc_ask_for_member(skb, now);
		if (uc_lock_both(slot, &now->key, now->place, annex_place)) {
			uc_share_told(slot, annex, now, answered);
			bpf_spin_unlock(&slot->lock);
		} else {
			/* perhaps it has joined after another CPU removed the flow */
			uc_forget_member(now->place);
		}
	}
	if (uc_write(skb, &now->frame, &now->segment, &now->edit))
		return UC_EDIT_FAILED;
	return now->reason;
}

#endif
