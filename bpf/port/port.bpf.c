/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The two programs of a tenant port, and those that they tail-call (pending.h). They run on the
 * host's side of the guest's interface: segments from the guest arrive there (ingress), segments to
 * the guest leave there (egress).
 *
 * They use UAPI headers only, and nothing that Linux 5.10 lacks. What they don't understand passes
 * unmodified and is counted (invariant "fail open"). The verdict is "next", so other programs on
 * the port still run; only the guard and strict mode drop packets, and marks that nobody would
 * answer.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "about.h"
#include "events.h"
#include "maps.h"
#include "marked.h"
#include "open.h"
#include "../write.h"

/* A flow asks about its port's hooks once in 2^UC_LOOK_SHIFT ns (67 ms): what hooks have seen is
 * stored no more exactly than UC_HOOKS_GRAIN_NS (50 ms). */
#define UC_LOOK_SHIFT 26
/* Parts of uc_slot.looked: the time, and for each direction (shifted by twice enum uc_direction)
 * whether the flow has asked at that time, and whether the other hook was blind. */
#define UC_LOOKED_AT    0xfff0
#define UC_LOOKED       1
#define UC_LOOKED_BLIND 2

/* Records the segment at its port's hook, and sets its `blind` if the other hook is blind. It does
 * not take the flow's lock: if another flow has the slot by now, one packet uses that flow's port;
 * and two CPUs may both ask. */
static __always_inline void uc_look(struct __sk_buff *skb, struct uc_slot *slot,
				    struct uc_segment *segment, __u64 now_ns)
{
	__u32 shift = segment->direction == UC_TO_GUEST ? 2 : 0;
	__u32 looked = slot->looked, at = (__u32)(now_ns >> UC_LOOK_SHIFT) << 4 & UC_LOOKED_AT;

	if ((looked & UC_LOOKED_AT) != at)
		looked = at;
	if (!(looked & UC_LOOKED << shift)) {
		looked |=
			(uc_ask_hooks(skb, slot->number, segment->direction, segment->flags, now_ns)
				 ? UC_LOOKED | UC_LOOKED_BLIND
				 : UC_LOOKED)
			<< shift;
		slot->looked = looked;
	}
	segment->blind = looked >> shift >> 1 & 1;
	uc_merge(segment->blind, now_ns);
}

/* Handles a segment of an unknown flow. Sets `left` to UC_LEFT_MARKED if the segment is marked and
 * goes to the guest. Returns UC_NO_HANDSHAKE. It has no branch on the mark, which would cost the
 * programs of some laws from outside 8 bytes of stack more than there are. */
static __always_inline enum uc_reason uc_port_unknown(const struct uc_segment *segment, __u8 *left)
{
	/* of all codepoints, only CE and 1 make 4 */
	if (segment->direction == UC_TO_GUEST)
		*left = (segment->ecn + 1) / 4 * UC_LEFT_MARKED;
	return UC_NO_HANDSHAKE;
}

/* Translates a segment of a known flow. Sets `left` to what is left to other programs (UC_LEFT_*,
 * UC_AWAITS_*), and `known`. Returns UC_NO_HANDSHAKE if the flow is unknown. */
static __always_inline enum uc_reason
uc_port_translate(struct __sk_buff *skb, const struct uc_key *key, struct uc_segment *segment,
		  const struct uc_frame *frame, __u64 now_ns, struct uc_edit *edit, __u8 *left,
		  struct uc_known *known)
{
	enum uc_reason reason;
	struct uc_annex *annex;
	__u8 settled, missed;
	struct uc_slot *slot;
	__u32 annex_place;

	known->place = uc_place_of(key, known->hash);
	slot = bpf_map_lookup_elem(&flows, &known->place);
	if (!slot)
		return uc_port_unknown(segment, left);
	uc_look(skb, slot, segment, now_ns);
	uc_read_sack(skb, frame, &slot->flow, segment);
	uc_merge(segment->options, now_ns);
	uc_merge(segment->mss_bytes, now_ns);
	annex_place = uc_annex_place(slot, known->place);
	annex = uc_annex_at(annex_place);
	if (!annex || !uc_lock_both(slot, key, known->place, annex_place))
		return uc_port_unknown(segment, left);
	known->number = slot->number;
	known->cwnd = slot->flow.reno.cwnd;
	missed = uc_is_missed(&slot->flow, segment);
	reason = uc_translate_later(&slot->flow, annex, segment, now_ns, edit);
	uc_merge(reason, now_ns);
	if (segment->direction == UC_TO_GUEST) {
		*left = uc_awaits(&slot->flow);
		if (*left & UC_AWAITS_SHARE)
			uc_report_share(slot, annex, known, now_ns);
	}
	if (uc_has_news(slot, annex))
		*left |= UC_LEFT_NEWS;
	settled = uc_has_settled(slot);
	bpf_spin_unlock(&slot->lock);
	if (missed)
		uc_note_missed(known->number, now_ns);
	if (settled)
		uc_settle(&key->ifindex);
	return reason;
}

/* Handles a packet in one direction; returns the verdict. */
static __always_inline int uc_port(struct __sk_buff *skb, enum uc_direction direction)
{
	struct uc_segment segment = {};
	struct uc_frame frame = {};
	struct uc_key key UC_KEY_ALIGNED = {.ifindex = skb->ifindex};
	__u64 now_ns = bpf_ktime_get_ns();
	struct uc_known known = {};
	struct uc_edit edit;
	enum uc_reason reason = uc_parse(skb, &key, &segment, &frame, direction);

	/* not as an initializer: clang would make a constant of it, in a section whose BTF
	 * Linux 5.10 refuses */
	known.place = UC_NO_PLACE;
	if (reason == UC_TRANSLATED) {
		__u8 left = 0;

		edit = uc_edit_none(&segment);
		known.hash = uc_hash_of(&key);
		if ((segment.flags & (UC_SYN | UC_RST)) == UC_SYN) {
			reason = UC_NO_POLICY;
			left = UC_LEFT_OPENING;
		} else {
			reason = uc_port_translate(skb, &key, &segment, &frame, now_ns, &edit,
						   &left, &known);
			if (known.number == UC_NUMBER_NONE && direction == UC_FROM_GUEST) {
				uc_hear_guest(&key, &segment, now_ns);
				if (uc_is_strict_port(key.ifindex))
					left = UC_LEFT_OPENING;
			}
		}
		if (uc_is_news(reason))
			left |= UC_LEFT_NEWS;
		if (left)
			uc_tail_call(skb, left, &key, &segment, &frame, &edit, reason, now_ns,
				     &known);
		if (uc_write(skb, &frame, &segment, &edit))
			reason = UC_EDIT_FAILED;
	} else if (direction == UC_FROM_GUEST && reason != UC_NOT_TCP &&
		   uc_is_strict_port(key.ifindex) && uc_hides_tcp(skb, frame.ipv6 ? frame.ip : 0)) {
		reason = uc_verdict_of(1, direction, reason);
	} else if (direction == UC_TO_GUEST && reason != UC_NOT_TCP) {
		uc_note_unread(uc_number_of(&key.ifindex), now_ns);
	}
	return uc_verdict(skb, &key, &segment, now_ns, known.number, reason);
}

SEC("tc")
int uc_from_guest_port(struct __sk_buff *skb)
{
	return uc_port(skb, UC_FROM_GUEST);
}

SEC("tc")
int uc_to_guest_port(struct __sk_buff *skb)
{
	return uc_port(skb, UC_TO_GUEST);
}

/* Asks the flow's group for the window of an ACK to the guest. Tail-called by uc_to_guest_port, and
 * by uc_join_port. */
SEC("tc")
int uc_share_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	enum uc_reason reason;

	if (!now)
		return TC_ACT_UNSPEC;
	reason = uc_share(skb, now);
	if (now->has_news)
		uc_note_news(skb);
	return uc_verdict(skb, &now->key, &now->segment, now->now_ns, now->number, reason);
}

/* Joins a flow to its group, or updates its weights. Tail-called by uc_share_port, which it
 * tail-calls again. */
SEC("tc")
int uc_join_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return TC_ACT_UNSPEC;
	uc_hear(skb, now);
	return uc_write_pending(skb, now);
}

/* Opens or reopens a flow for a SYN or SYN-ACK. Tail-called by the programs of both directions. */
SEC("tc")
int uc_open_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return TC_ACT_UNSPEC;
	now->reason = uc_open_flow(skb, now);
	bpf_tail_call(skb, &tail_calls, UC_CALL_NOTE);
	uc_tell_nobody(now);
	return uc_write_pending(skb, now);
}

/* Handles the flow at the index that uc_next_place() returns: lets it leave translation or return
 * to it, as the plan of its port says, and removes it if it is stale. Returns 1 if it removed it. A
 * global function, which the verifier checks once on its own. */
__attribute__((noinline)) int uc_follow_place(struct __sk_buff *skb)
{
	__u32 place = uc_next_place();

	if (!skb)
		return 0;
	uc_follow_plan(skb, place);
	if (!uc_give_up(skb, place, 0, 0))
		return 0;
	uc_vacate(place);
	return 1;
}

/* Calls uc_follow_place() for the next UC_PLACES_SWEPT entries of `flows`. Returns how many flows
 * it removed. Attached to no port: user space runs it. */
SEC("tc")
int uc_collect_idle(struct __sk_buff *skb)
{
	int collected = 0;

	for (int i = 0; i < UC_PLACES_SWEPT; i++)
		collected += uc_follow_place(skb);
	return collected;
}

/* Records events of a flow. Tail-called by the programs of both directions, and by uc_open_port. */
SEC("tc")
int uc_note_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return TC_ACT_UNSPEC;
	uc_note_news(skb);
	return uc_write_pending(skb, now);
}

/* Drops marked data to the guest of an unknown flow, if nobody would answer the mark. Tail-called
 * by uc_to_guest_port. */
SEC("tc")
int uc_marked_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	__u8 first = 0;

	if (!now)
		return TC_ACT_UNSPEC;
	now->reason = uc_answer_for(skb, now, &first);
	if (first)
		bpf_tail_call(skb, &tail_calls, UC_CALL_NOTE);
	return uc_verdict(skb, &now->key, &now->segment, now->now_ns, now->number, now->reason);
}

#define UC_ABOUT_LAW(NAME, name, machine, cut, traits, state, parameters, what, why)               \
	{#name, #machine, #cut, what, why, traits, UC_LAW_##NAME},
const struct uc_about uc_about_port SEC("about") = {
	.mark = UC_ABOUT_MARK,
	.layout = UC_LAYOUT,
	.laws = {UC_LAWS_MORE(UC_ABOUT_LAW)},
};
#undef UC_ABOUT_LAW

char LICENSE[] SEC("license") = "Dual BSD/GPL";
