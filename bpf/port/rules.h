/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The plan in force: the compiled rules of each port. Two maps hold plans, of which one is in
 * force. User space writes the next plan into the other and then changes the single entry of
 * `plan`, so a SYN sees either the old plan or the new one. That update returns only when no
 * program uses the old plan any more (as for each map of maps), so the old map can be overwritten
 * for the plan after it.
 *
 * User space may add a port to the plan in force; it writes the port's first page last.
 */
#ifndef UC_RULES_H
#define UC_RULES_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../core/leave.h"
#include "layout.h"
#include "pending.h"
#include "remotes.h"

struct uc_plan_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, (UC_PORTS_MAX + 1) * UC_PAGES_MAX);
	/* sizes, not types: clang 14 emits no BTF for types that only a map of maps names */
	__uint(key_size, sizeof(struct uc_page_key));
	__uint(value_size, sizeof(struct uc_page));
};

struct uc_plan_map plan_a SEC(".maps");
struct uc_plan_map plan_b SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct uc_plan_map);
} plan SEC(".maps");

/* Returns whether a rule of the port is strict. */
static __always_inline int uc_is_strict_port(__u32 ifindex)
{
	struct uc_page_key key = {.ifindex = ifindex};
	void *in_force = uc_only_entry(&plan);
	const struct uc_page *page = in_force ? bpf_map_lookup_elem(in_force, &key) : NULL;

	return page && page->strict;
}

/* Lets the flow at the index `place` of `flows` leave translation if its port drains, or return to
 * it if its port drains no more. A global function, for the verifier. */
__attribute__((noinline)) int uc_follow_plan(struct __sk_buff *skb, __u32 place)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &place);
	void *in_force = uc_only_entry(&plan);
	struct uc_page_key key = {};
	const struct uc_page *page;
	__u32 leaves;

	if (!skb || !slot || !in_force)
		return 0;
	key.ifindex = slot->key.ifindex;
	page = key.ifindex ? bpf_map_lookup_elem(in_force, &key) : NULL;
	if (!page)
		return 0;
	leaves = page->leaves;
	bpf_spin_lock(&slot->lock);
	if (slot->key.ifindex == key.ifindex) {
		if (!leaves)
			uc_return(&slot->flow);
		else if (!uc_leave(&slot->flow))
			slot->flow.seen_ns = 0; /* it is stale: uc_give_up() */
	}
	bpf_spin_unlock(&slot->lock);
	return 1;
}

/* What opening a flow needs of its port's plan, copied while the plan is in force. */
struct uc_opening {
	struct uc_ends ends;
	struct uc_policy policy;
	__u32 generation;
	__u32 rule;
	__u32 flows_max;
	__u32 share;
	__u32 rule_number;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_opening);
} opening SEC(".maps");

static __always_inline struct uc_opening *uc_opening_now(void)
{
	return uc_only_entry(&opening);
}

/* Returns the index of the page's first rule that matches; UC_PAGE_RULES if none does. Unused
 * entries are all zero and match no DSCP. */
static __always_inline __u32 uc_rule_on(const struct uc_page *page, const struct uc_ends *ends)
{
	__u32 found = UC_PAGE_RULES;

	/* backwards, without a break or a branch: one path for the verifier instead of one for each
	 * rule */
	for (int i = UC_PAGE_RULES - 1; i >= 0; i--) {
		__u32 at = i, matches;

		/* keeps the compiler from counting by a pointer that starts before the page, which
		 * the verifier of Linux 7.3 refuses */
		asm volatile("" : "+r"(at));
		matches = uc_matches(&page->rule[at].match, ends);
		/* i if it matches: all bits of -1 are set, and none of 0 */
		found ^= (found ^ i) & -matches;
	}
	return found;
}

/* Reads the fields that rules match. */
static __always_inline void uc_read_ends(struct uc_ends *ends, const struct uc_key *key, __u8 dscp)
{
	__builtin_memcpy(ends->local, key->guest, sizeof(ends->local));
	__builtin_memcpy(ends->remote, key->remote, sizeof(ends->remote));
	ends->local_port = bpf_ntohs(key->guest_port);
	ends->remote_port = bpf_ntohs(key->remote_port);
	ends->dscp = dscp;
}

/* Returned by uc_find_on_page() if the page doesn't exist, or belongs to another plan than the
 * first page because a new plan has come into force. */
#define UC_NO_PAGE (-1)

/*
 * Looks for a rule that matches `opening`'s ends on one page of the port. Returns twice the number
 * of the port's rules, plus 1 if a rule was found, which is then in `opening`; or UC_NO_PAGE. A
 * global function, so that the verifier checks it once and not for each page.
 */
__attribute__((noinline)) int uc_find_on_page(struct __sk_buff *skb, __u32 number)
{
	struct uc_opening *how = uc_opening_now();
	struct uc_pending *now = uc_pending_now();
	void *in_force = uc_only_entry(&plan);
	struct uc_page_key key = {.page = number};
	const struct uc_page *page;
	__u32 at;

	if (!skb || !how || !now || !in_force)
		return UC_NO_PAGE;
	key.ifindex = now->key.ifindex;
	page = bpf_map_lookup_elem(in_force, &key);
	if (!page)
		return UC_NO_PAGE;
	if (!number) {
		how->flows_max = page->flows_max;
		how->generation = page->generation;
	} else if (page->generation != how->generation) {
		return UC_NO_PAGE;
	}
	at = uc_rule_on(page, &how->ends);
	if (at >= UC_PAGE_RULES)
		return page->rules << 1;
	/* keeps the mask below, which the compiler would drop and older verifiers need */
	asm volatile("" : "+r"(at));
	at &= UC_PAGE_RULES - 1;
	how->policy = page->rule[at].policy;
	how->share = page->rule[at].share;
	how->rule = number * UC_PAGE_RULES + at;
	how->rule_number = page->rule[at].number;
	return page->rules << 1 | 1;
}

/* Looks for a rule on all pages. Returns 1: found; 0: none matches; UC_NO_PAGE: the plan has
 * changed. */
static __always_inline int uc_find_in_plan(struct __sk_buff *skb)
{
	__u32 rules = 1;

	for (__u32 i = 0; i < UC_PAGES_MAX && i * UC_PAGE_RULES < rules; i++) {
		int found = uc_find_on_page(skb, i);

		if (found < 0)
			return i ? UC_NO_PAGE : 0;
		if (found & 1)
			return 1;
		if (!i)
			rules = found >> 1;
	}
	return 0;
}

/*
 * Finds the rule for the SYN in `pending`, and copies it into `opening`. Returns 1 if there is one;
 * otherwise the policy in `opening` is to pass. A global function, for the verifier.
 */
__attribute__((noinline)) int uc_find_rule(struct __sk_buff *skb)
{
	const struct uc_policy pass = {.law = UC_LAW_PASS};
	struct uc_opening *how = uc_opening_now();
	struct uc_pending *now = uc_pending_now();
	int found;

	/* `skb` is unused, but a global function needs an argument */
	if (!skb || !how || !now)
		return 0;
	how->policy = pass;
	how->share = 0;
	uc_read_ends(&how->ends, &now->key, now->frame.dscp);
	found = uc_find_in_plan(skb);
	/* once more is enough: the next change of plans waits for this program */
	if (found == UC_NO_PAGE)
		found = uc_find_in_plan(skb);
	if (uc_opens_blind(&how->policy, &now->segment) ||
	    (uc_remembers_remotes(&how->policy) && uc_is_remote_distrusted(skb)))
		how->policy.modes |= UC_MODE_NO_ECT;
	return found == 1;
}

#endif
