/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The plan in force: every port's rules. There are two maps for it. One is in force; user space
 * writes the next plan into the other and then changes the one entry of `plan`, so a SYN sees all
 * of the old plan or all of the new one. That change waits until no program uses the old one any
 * more (as every change of a map of maps does), so that can be written to for the plan after it.
 *
 * To the one in force a port may be added, its first page last.
 */
#ifndef UC_RULES_H
#define UC_RULES_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "layout.h"
#include "pending.h"

struct uc_plan_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, (UC_PORTS_MAX + 1) * UC_PAGES_MAX);
	/* by their sizes: of types that are named in a map of maps only, clang 14 tells nothing */
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

/* What a SYN is opened by: of its port's plan what it needs, copied while the plan is in force. */
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

/* The first of a page's rules that matches; UC_PAGE_RULES: none. What is no rule is all zero, and
 * so matches no DSCP. */
static __always_inline __u32 uc_rule_on(const struct uc_page *page, const struct uc_ends *ends)
{
	__u32 found = UC_PAGE_RULES;

	/* backwards and to the end: one way through it instead of one for each rule */
	for (int i = UC_PAGE_RULES - 1; i >= 0; i--) {
		__u32 at = i;

		/* or a compiler counts by a pointer that begins before the page: 7.3 refuses that
		 */
		asm volatile("" : "+r"(at));
		if (uc_matches(&page->rule[at].match, ends))
			found = i;
	}
	return found;
}

static __always_inline void uc_read_ends(struct uc_ends *ends, const struct uc_key *key, __u8 dscp)
{
	__builtin_memcpy(ends->local, key->guest, sizeof(ends->local));
	__builtin_memcpy(ends->remote, key->remote, sizeof(ends->remote));
	ends->local_port = bpf_ntohs(key->guest_port);
	ends->remote_port = bpf_ntohs(key->remote_port);
	ends->dscp = dscp;
}

/* What uc_find_on_page() answers if there is no such page, or it is another plan's than the first:
 * a new one has come into force meanwhile. */
#define UC_NO_PAGE (-1)

/*
 * Looks for it on the page of that number; needs `how->ends`. Answers twice the number of the
 * port's rules, and 1 more if it was found: then it is in `opening`. Not static: the verifier looks
 * at it once, instead of once for each page.
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
	/* a compiler knows that this changes nothing, and not every verifier does */
	asm volatile("" : "+r"(at));
	at &= UC_PAGE_RULES - 1;
	how->policy = page->rule[at].policy;
	how->share = page->rule[at].share;
	how->rule = number * UC_PAGE_RULES + at;
	how->rule_number = page->rule[at].number;
	return page->rules << 1 | 1;
}

/* Page by page. 1: found; 0: not; or UC_NO_PAGE, of one that was there a moment ago. */
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
 * By which rule the SYN in `pending` is to be opened; the policy is to pass if by none. A function
 * of its own, for the verifier. 1: there is one.
 */
__attribute__((noinline)) int uc_find_rule(struct __sk_buff *skb)
{
	const struct uc_policy pass = {.law = UC_LAW_PASS};
	struct uc_opening *how = uc_opening_now();
	struct uc_pending *now = uc_pending_now();
	int found;

	/* an argument nobody needs; but without one it isn't a global function */
	if (!skb || !how || !now)
		return 0;
	how->policy = pass;
	how->share = 0;
	uc_read_ends(&how->ends, &now->key, now->at.dscp);
	found = uc_find_in_plan(skb);
	/* the change of plans waits for this program: there is one at most */
	if (found == UC_NO_PAGE)
		found = uc_find_in_plan(skb);
	return found == 1;
}

#endif
