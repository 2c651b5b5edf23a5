/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stack of one program has no room for all that may be done for a packet, so a port's program
 * ends in others: for a SYN (open.h), where a flow's window is its group's to say (share.h), where
 * something has happened to write down (events.h). What they go on from lies in `pending`, one for
 * each CPU: from the one to the other a packet isn't interrupted by the next.
 */
#ifndef UC_PENDING_H
#define UC_PENDING_H

#include <linux/pkt_cls.h>

#include "maps.h"
#include "news.h"
#include "../packet.h"

struct uc_pending {
	struct uc_key key;
	__u32 tag; /* of the key: layout.h. Stack is scarce in the programs that need it */
	struct uc_segment segment;
	struct uc_offsets at;
	struct uc_edit edit;
	struct uc_ccc_report report;
	struct uc_ccc_answer answer;
	struct uc_facts facts; /* events.h, as the next */
	__u64 now_ns;
	__u32 place;
	__u32 reason;
	__u32 number; /* the port's, if the flow is known */
	__u8 awaits;
	__u8 closed;
	__u8 has_news;
	__u8 share; /* the flow's weight, by its rule */
	__u8 was;   /* the same, before another policy's was asked for */
	__u8 dscp;  /* of its SYN */
	__u8 heard; /* uc_join_port has seen it, and its group has answered (share.h) */
	__u8 answered;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_pending);
} pending SEC(".maps");

/* The programs that a port's two may end in, which user space puts in. All are loaded alike, so one
 * array has room for those of both directions. */
enum uc_ending { UC_END_SHARE, UC_END_OPEN, UC_END_NOTE, UC_END_JOIN, UC_ENDINGS };

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, UC_ENDINGS);
	__type(key, __u32);
	__type(value, __u32);
} endings SEC(".maps");

static __always_inline struct uc_pending *uc_pending_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pending, &zero);
}

/* The port's program ends here, unless the other is not there (any more): then it writes what it
 * has, and the guest is given the receiver's window, or the SYN passes. */
static __always_inline void uc_end_in(struct __sk_buff *skb, enum uc_ending ending,
				      const struct uc_key *key, const struct uc_segment *segment,
				      const struct uc_offsets *at, const struct uc_edit *edit,
				      enum uc_reason reason, __u64 now_ns)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return;
	now->key = *key;
	now->tag = uc_tag_of(key);
	now->segment = *segment;
	now->at = *at;
	now->edit = *edit;
	now->reason = reason;
	now->now_ns = now_ns;
	now->number = UC_NUMBER_NONE;
	bpf_tail_call(skb, &endings, ending);
}

/* Number: the port's, as a flow of the table knows it, or none. */
static __always_inline int uc_end(const struct uc_key *key, __u32 number, enum uc_reason reason)
{
	uc_count(number == UC_NUMBER_NONE ? uc_number_of(&key->port) : number, reason);
	return uc_drops(reason) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* The rest of what the port's program would have done. */
static __always_inline int uc_write_pending(struct __sk_buff *skb, const struct uc_pending *now)
{
	enum uc_reason reason = now->reason;

	if (uc_write(skb, &now->at, &now->segment, &now->edit))
		reason = UC_EDIT_FAILED;
	return uc_end(&now->key, now->number, reason);
}

#endif
