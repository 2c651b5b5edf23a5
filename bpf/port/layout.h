/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keys and values of the port programs' maps: the contract between the programs and user space.
 */
#ifndef UC_LAYOUT_H
#define UC_LAYOUT_H

#include <linux/bpf.h>

#include "../../core/coupling/group.h"
#include "../../core/distrust.h"
#include "../../core/flow.h"
#include "../../core/hooks.h"
#include "../../core/reason.h"
#include "../../core/reopen.h"
#include "../../core/rule.h"
#include "../../core/unanswered.h"
#include "../key.h"
#include "event.h"

/*
 * An entry of the map `flows`, of four cache lines: a flow, or the annex of another flow. An annex
 * lies in `flow`, and `key.ifindex` is 0. `flow.annex_at` is the place of a flow's annex; all else
 * that means something on this host only is beside `flow`.
 */
struct uc_slot {
	struct bpf_spin_lock lock;
	__u16 generation;  /* generation of the plan that opened the flow, modulo 2^16 */
	__u16 looked;      /* when the flow last asked about its port's hooks, and the answer:
			    * uc_look(), port.bpf.c */
	struct uc_key key; /* ifindex 0: the entry has no flow */
	__u16 number;      /* the port's index in `counts` */
	__u16 rule_number; /* number of the rule that opened the flow, as the operator sees it */
	__u8 rule;         /* that rule's index among the port's, from 0 */
	__u8 dscp;         /* DSCP of the flow's SYN */
	__u8 kept_dscp;    /* DSCP of the SYN that the flow stores (core/reopen.h) */
	__u8 bits;         /* UC_SLOT_* */
	__u32 seen;        /* uc_fingerprint() at the flow's last event: news.h */
	struct uc_flow flow;
};

#define UC_SLOT_HALF_OPEN 1 /* the port counts the flow as half-open */
#define UC_SLOT_LISTED    2 /* the flow is in `buckets`: from then on any CPU may remove it */
#define UC_SLOT_ANNEXED   4 /* the flow has an annex */

_Static_assert(sizeof(struct uc_slot) == 256, "a slot must fill its cache lines");

/* In place of an index into `flows`: the packet belongs to no known flow. */
#define UC_NO_PLACE 0xffffffffU

/* Entries of a hash bucket, and entries of `flows` for each pair of buckets. */
#define UC_BUCKET_ENTRIES 7
#define UC_BUCKETS_PART   8

/* A bucket of the index that finds flows (index.h). */
struct uc_bucket {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 entries[UC_BUCKET_ENTRIES]; /* uc_entry_of(); 0: free */
};

_Static_assert(sizeof(struct uc_bucket) == 64, "a bucket must fill its cache line");

/* Changes with what index.h makes of a key: its hash, its buckets and its entry. A newer build then
 * makes maps of its own (UC_LAYOUT) and doesn't search those of an older one. */
#define UC_INDEX_FORM 2

/* Bit n: each flow of law n has an annex. So the layout's number changes with these laws, too. */
enum uc_annexed_laws {
#define UC_LAW_ANNEXED(NAME, name, machine, cut, traits, ...)                                      \
	| ((traits) & (UC_FAR | UC_GROUPED) ? 1U << UC_LAW_##NAME : 0)
	UC_ANNEXED_LAWS = 0 UC_LAWS(UC_LAW_ANNEXED)
#undef UC_LAW_ANNEXED
};

/* What the hash of a key depends on. User space sets it when it makes the maps. */
struct uc_secret {
	__u32 words[UC_KEY_WORDS + 1]; /* random */
	__u32 pairs;                   /* number of pairs of buckets */
};

/* A peer's SYN that the guest has not answered, by the key of its connection. */
struct uc_asking {
	__u32 tag; /* uc_tag() of the key's hash */
	__u8 dscp;
	__u8 pad[3];
	struct uc_kept_syn syn;
};

/* An event of a flow that passes: why it passes. */
struct uc_passed {
	struct bpf_spin_lock lock;
	__u32 reason; /* enum uc_reason */
	__u64 at_ns;  /* 0: the entry is unused */
	struct uc_key key;
};

/* The largest number of ports with a plan; each has an index in `counts`. Index 0 counts packets of
 * ports without a plan, the last index those of ports that are gone. */
#define UC_PORTS_MAX   2048
#define UC_NUMBER_NONE 0
#define UC_NUMBER_PAST (UC_PORTS_MAX + 1)

/* Remote addresses that are remembered for each port: a power of two. */
#define UC_REMOTES_KEPT 32

/* What is remembered of a remote address: remotes.h. */
struct uc_remote_slot {
	struct bpf_spin_lock lock;
	__u32 vlan; /* as in uc_key, and so is the address */
	__u32 address[4];
	struct uc_remote remote;
};

/* State of a port with a plan, by ifindex. */
struct uc_port_state {
	struct bpf_spin_lock lock;
	__u32 flows;     /* number of its flows in the table */
	__u32 number;    /* its index in `counts` */
	__u32 half_open; /* number of its flows that are half-open (quota.h) */
	__u32 turns[2];  /* half-open flows so far: opened by the guest, by peers */
	__u64 displaced; /* half-open flows so far that lost their places to newer ones */
	__u64 swept_ns;  /* when the port last searched the table for stale flows */
	__u64 forget_ns; /* flows whose last segment passed no later are stale */
};

/* Entries of `flows` for each entry of the rings of half-open flows. */
#define UC_HALF_OPEN_PART 4

/* An entry in the ring of a port's half-open flows (table.h): the flow that took it. */
struct uc_turn {
	__u32 place; /* in `flows`, plus 1; 0: none */
	__u32 tag;   /* uc_tag() of its key's hash */
};

/* Packets of a port, by enum uc_direction and reason. */
struct uc_counts {
	__u64 packets[2][UC_REASON_COUNT];
};

/* Rules on a page, and the largest number of pages of a port's plan. */
#define UC_PAGE_RULES 8
#define UC_PAGES_MAX  (UC_RULES_MAX / UC_PAGE_RULES)

struct uc_page_key {
	__u32 ifindex; /* of the port; 0: the plan as a whole */
	__u32 page;    /* from 0 */
};

/* A part of a port's plan. The first page also has what holds for the whole port. */
struct uc_page {
	__u32 generation; /* generation of the whole host's plan */
	__u16 rules;      /* number of the port's rules, on all pages */
	__u16 strict;     /* 1: a rule of the port is strict */
	__u32 flows_max;  /* maximum number of the port's settled flows; 0: by the free places
			   * (quota.h) */
	__u32 tenant;
	__u32 after_others; /* 1: user space attaches the programs after those of others */
	__u32 leaves; /* 1: the port drains: it has no rules, and its flows leave translation */
	struct uc_rule rule[UC_PAGE_RULES];
};

/* Number of entries of `flows` that one call of uc_collect() checks for stale flows: when a port
 * has reached its quota, and when user space asks. */
#define UC_PLACES_SWEPT 32

/* The table as a whole. User space sets `places` and `layout`. */
struct uc_cursor {
	struct bpf_spin_lock lock; /* of `fresh` */
	__u32 next;                /* modulo `fresh`: index that is searched next */
	__u32 places;              /* number of entries of `flows` */
	__u32 fresh;               /* from this index on no entry was ever used */
	__u64 layout;              /* hash of the maps' layout, by which a build knows its own */
	__u32 used;                /* number of entries in use */
	__u32 ports;               /* the highest `number` of a port that has opened a flow */
};

/* With which flows those of a port share windows, by ifindex. It covers flows of law `coupled`, and
 * flows whose rule says `share` in addition to another law. */
struct uc_port_coupling {
	__u32 group;   /* only ports of the same number share: one number for each tenant, say */
	__u8 prefix4;  /* bits of the remote IPv4 address that identify a group; 32: each host */
	__u8 prefix6;  /* bits of the remote IPv6 address; 0: all hosts are one group */
	__u8 weight;   /* weight of the port's guest in its groups */
	__u8 priority; /* priority of a flow in its guest, if `priorities` has none for it */
	struct uc_ccc_policy rules; /* policy of a group that this port is the first to use */
	__u32 version;              /* changes with the weights */
};

/* A TCP port, at either end of a flow, whose flows have a priority of their own. */
struct uc_priority_key {
	__u32 ifindex; /* of the port */
	__u32 tcp_port;
};

struct uc_group_key {
	__u32 group;
	__be32 remote[4]; /* the remote address's prefix, zeroes after it */
	__u32 vlan;       /* as in uc_key */
};

/* A map entry for a group. Its lock also covers the group's guests and their members. */
struct uc_group {
	struct bpf_spin_lock lock;
	struct uc_group_key key;
	__u64 used_ns; /* time of the last use; 0: never used */
	struct uc_ccc ccc;
};

/* A map entry for a guest (a port) in a group. The lock protects only the taking of the entry. */
struct uc_group_guest {
	struct bpf_spin_lock lock;
	struct uc_group_key key;
	__u64 used_ns;
	struct uc_ccc_guest ccc;
	__u32 ifindex; /* of the port */
	__u32 pad;
};

/* A flow as a member of a group, keyed by the flow's index in `flows`. */
struct uc_member {
	struct uc_group_key key;
	__u32 group; /* indices in `groups` and `guests`, if joined */
	__u32 guest;
	__u8 joined;
	__u8 weight;
	__u8 priority;
	__u8 refusals; /* failed attempts to join */
	__u32 version; /* uc_port_coupling.version of the policy that its weights come from */
	struct uc_ccc_flow flow;
};

#endif
