/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What lies in the maps: the contract between the programs and user space.
 */
#ifndef UC_LAYOUT_H
#define UC_LAYOUT_H

#include <linux/bpf.h>

#include "../../core/coupling/group.h"
#include "../../core/flow.h"
#include "../../core/reason.h"
#include "../../core/rule.h"
#include "../key.h"
#include "event.h"

struct uc_slot {
	struct bpf_spin_lock lock;
	__u32 tag;        /* uc_tag_of() its key */
	__u32 place;      /* in `places` */
	__u32 generation; /* of the plan that opened it, */
	__u8 rule;        /* and which of the port's rules did, from 0 */
	__u8 dscp;        /* of its SYN */
	__u16 number;     /* the port's, in `counts` */
	struct uc_noted noted;
	__u16 rule_number; /* by which the operator knows the rule */
	__u8 kept_dscp;    /* of the SYN that its flow keeps (core/reopen.h) */
	__u8 pad[5];
	struct uc_flow flow;
};

/* A flow that passed, and why. */
struct uc_passed {
	struct bpf_spin_lock lock;
	__u32 reason; /* enum uc_reason */
	__u64 at_ns;  /* 0: nobody yet */
	struct uc_key key;
};

/* Ports that have a plan at once; and how their packets are counted: what passes on a port without
 * one as number 0, what was counted of ports that have gone as the last. */
#define UC_PORTS_MAX   2048
#define UC_NUMBER_NONE 0
#define UC_NUMBER_PAST (UC_PORTS_MAX + 1)

/* Of a port with a plan, by ifindex. */
struct uc_port_state {
	struct bpf_spin_lock lock;
	__u32 flows;  /* in the table */
	__u32 number; /* in `counts` */
};

/* Packets of a port by reason. */
struct uc_counts {
	__u64 packets[UC_REASON_COUNT];
};

/* Rules to a page, and pages that a port's plan may have. */
#define UC_PAGE_RULES 8
#define UC_PAGES_MAX  (UC_RULES_MAX / UC_PAGE_RULES)

struct uc_page_key {
	__u32 ifindex; /* of the port; 0: the plan as a whole */
	__u32 page;    /* from 0 */
};

/* A piece of a port's plan. The first page tells all but the rules of the others. */
struct uc_page {
	__u32 generation; /* of the plan of the whole host */
	__u32 rules;      /* of the port, on all pages */
	__u32 flows_max;  /* that may be in the table at once; 0: as many as there is room for */
	__u32 tenant;
	struct uc_rule rule[UC_PAGE_RULES];
};

/* Where a flow is entered. The lock keeps two CPUs from taking one place for two flows. */
struct uc_place {
	struct bpf_spin_lock lock;
	struct uc_key key; /* ifindex 0: never taken */
};

/* Places that are looked at for stale flows at once: when a port has all the flows it may have, and
 * when user space wants. */
#define UC_PLACES_SWEPT 32

/* Of all places: user space sets their number. */
struct uc_cursor {
	__u32 next; /* where the next new flow starts to look; a lost increment does no harm */
	__u32 places;
	__u64 layout; /* what lies in the maps, as a number that no other layout has */
};

/* Whose window a port's flows share: those of law `coupled`, or those whose rules say `share`
 * beside another. By ifindex. */
struct uc_port_coupling {
	__u32 group;   /* ports of different numbers share nothing: one for each tenant, say */
	__u8 prefix4;  /* bits of the remote address that name a group in that: 32, each host */
	__u8 prefix6;  /* is one; 0, all are */
	__u8 weight;   /* the guest's, among those of its groups */
	__u8 priority; /* a flow's, among its guest's, where `priorities` has none for it */
	struct uc_ccc_policy rules; /* of a group that this port is the first to use */
	__u32 version;              /* another one, other weights */
};

/* A TCP port, at either end of a flow, whose flows have a priority of their own. */
struct uc_priority_key {
	__u32 ifindex; /* of the port */
	__u32 tcp_port;
};

struct uc_group_key {
	__u32 group;
	__be32 remote[4]; /* of the remote address what the prefix leaves */
};

/* A place for a group. Its lock covers its guests and their members, too. */
struct uc_group {
	struct bpf_spin_lock lock;
	struct uc_group_key key;
	__u64 used_ns; /* 0: never */
	struct uc_ccc ccc;
};

/* A place for a guest of a group; the guest is its port. The lock is for taking the place only. */
struct uc_group_guest {
	struct bpf_spin_lock lock;
	struct uc_group_key key;
	__u64 used_ns;
	struct uc_ccc_guest ccc;
	__u32 ifindex; /* of the port */
	__u32 pad;
};

/* A flow as a member, by its place in `places`. */
struct uc_member {
	struct uc_group_key key;
	__u32 group; /* places in `groups` and `guests`, if joined */
	__u32 guest;
	__u8 joined;
	__u8 weight;
	__u8 priority;
	__u8 refusals; /* times that it has found no room */
	__u32 version; /* of the policy whose weights it has */
	struct uc_ccc_flow flow;
};

#endif
