/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Tail calls. The stack of one program has no room for all that may be done for a packet, so a
 * port's program tail-calls others: for a SYN (open.h), for an ACK whose window a group decides
 * (share.h), to record an event (events.h), and for marked data of an unknown flow (marked.h). A
 * tail call doesn't return, and the called program starts without the caller's variables. So the
 * caller saves the packet's state in `pending`, one entry for each CPU: no other packet runs on the
 * CPU between the two programs.
 */
#ifndef UC_PENDING_H
#define UC_PENDING_H

#include <linux/pkt_cls.h>

#include "index.h"
#include "maps.h"
#include "news.h"
#include "../write.h"

/* What a flow that shares a window reports to its group with an ACK to the guest. */
struct uc_member_report {
	struct uc_ccc_report ccc;
	__u8 closed; /* 1: the connection has ended, and leaves its group */
	__u8 share;  /* the flow's weight, by its rule */
	__u8 dscp;   /* DSCP of the flow's SYN */
};

struct uc_pending {
	struct uc_key key;
	__u64 hash; /* uc_hash_of() the key */
	struct uc_segment segment;
	struct uc_frame frame;
	struct uc_edit edit;
	struct uc_member_report report;
	struct uc_ccc_answer answer;
	struct uc_facts facts; /* for events: news.h */
	__u64 now_ns;
	__u32 place;   /* the flow's index in `flows`; UC_NO_PLACE: the flow is unknown */
	__u32 annex;   /* index of a new flow's annex in `flows`; UC_NO_PLACE: it has none */
	__u32 reason;  /* enum uc_reason */
	__u32 number;  /* as in uc_known */
	__u8 awaits;   /* UC_AWAITS_* */
	__u8 has_news; /* 1: there are events to record */
	__u8 was;      /* report.share before a change of policy was applied */
	__u8 heard;    /* 1: uc_join_port has run for this packet */
	__u8 answered; /* 1: the group has answered in uc_join_port */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_pending);
} pending SEC(".maps");

/* The programs that a port's two programs may tail-call; user space puts them into `tail_calls`.
 * They are loaded as the same program type, so one array serves both directions. */
enum uc_callee {
	UC_CALL_SHARE,
	UC_CALL_OPEN,
	UC_CALL_NOTE,
	UC_CALL_JOIN,
	UC_CALL_MARKED,
	UC_CALLS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, UC_CALLS);
	__type(key, __u32);
	__type(value, __u32);
} tail_calls SEC(".maps");

static __always_inline struct uc_pending *uc_pending_now(void)
{
	return uc_only_entry(&pending);
}

/* What a port's program knows of a segment's flow. */
struct uc_known {
	__u64 hash;   /* uc_hash_of() its key */
	__u32 place;  /* UC_NO_PLACE: the flow is unknown */
	__u32 number; /* the port's index in `counts`; UC_NUMBER_NONE: the flow is unknown, or the
		       * segment a SYN */
	__u32 cwnd;   /* the shadow's cwnd before the segment */
	/* of an ACK whose window the flow's group decides: share.h */
	struct uc_member_report report;
};

/* What a port's program leaves to others, in addition to UC_AWAITS_*. */
#define UC_LEFT_OPENING 0x80 /* a SYN, or a segment of an unknown flow at a strict port */
#define UC_LEFT_NEWS    0x40 /* events are to be recorded */
#define UC_LEFT_MARKED  0x20 /* a marked segment to the guest, of an unknown flow */

/* Saves the packet's state in `pending` and tail-calls the first program of those that `left` names
 * and that is loaded. Returns only if none is: the caller then writes the edit that it has, so the
 * guest gets the receiver's window, or the SYN passes. */
static __always_inline void uc_tail_call(struct __sk_buff *skb, __u8 left, const struct uc_key *key,
					 const struct uc_segment *segment,
					 const struct uc_frame *frame, const struct uc_edit *edit,
					 enum uc_reason reason, __u64 now_ns,
					 const struct uc_known *known)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return;
	now->key = *key;
	now->hash = known->hash;
	now->place = known->place;
	now->facts.cwnd = known->cwnd;
	now->facts.remote = UC_REMOTE_NOTHING;
	now->segment = *segment;
	now->frame = *frame;
	now->edit = *edit;
	now->reason = reason;
	now->now_ns = now_ns;
	now->number = known->number;
	now->awaits = left & (UC_AWAITS_SHARE | UC_AWAITS_DUPLICATE);
	now->has_news = 0;
	now->heard = 0;
	now->answered = 0;
	if (left & UC_LEFT_OPENING)
		bpf_tail_call(skb, &tail_calls, UC_CALL_OPEN);
	if (left & UC_AWAITS_SHARE) {
		now->report = known->report;
		now->was = known->report.share;
		bpf_tail_call(skb, &tail_calls, UC_CALL_SHARE);
	}
	if (left & UC_LEFT_NEWS)
		bpf_tail_call(skb, &tail_calls, UC_CALL_NOTE);
	if (left & UC_LEFT_MARKED)
		bpf_tail_call(skb, &tail_calls, UC_CALL_MARKED);
}

/* Counts the packet by its reason and returns the verdict for the kernel. `number`: the port's
 * index in `counts`, from the flow's slot; UC_NUMBER_NONE: it is looked up, and the port's hook
 * records the segment, which no known flow has done. */
static __always_inline int uc_verdict(struct __sk_buff *skb, const struct uc_key *key,
				      const struct uc_segment *segment, __u64 now_ns, __u32 number,
				      enum uc_reason reason)
{
	if (number == UC_NUMBER_NONE) {
		number = uc_number_of(&key->ifindex);
		if (segment->flags)
			uc_ask_hooks(skb, number, segment->direction, segment->flags, now_ns);
	}
	uc_count(number, segment->direction, reason);
	return uc_drops(reason) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* Writes the edit in `pending`, and counts: what the port's program does without a tail call. */
static __always_inline int uc_write_pending(struct __sk_buff *skb, const struct uc_pending *now)
{
	enum uc_reason reason = uc_counted_as(now->reason, &now->segment, &now->edit);

	if (uc_write(skb, &now->frame, &now->segment, &now->edit) ||
	    (now->edit.removed && uc_remove_offers(skb, &now->frame, now->edit.removed)))
		reason = UC_EDIT_FAILED;
	return uc_verdict(skb, &now->key, &now->segment, now->now_ns, now->number, reason);
}

#endif
