/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The two programs of a tenant port, and those that they end in: one for SYNs and what answers
 * them, and one where flows are coupled. They run on the host's side of the guest's interface: what
 * the guest sends arrives there (ingress of the interface), what it receives leaves there (egress).
 *
 * UAPI headers only, and nothing that 5.10 lacks. Whatever is not understood passes unchanged
 * and is counted; the verdict is "next", so other programs on the port still run, but for what the
 * guard of the port's own policy drops.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "events.h"
#include "maps.h"
#include "open.h"
#include "../packet.h"

/* A follow-up of uc_port_translate() in addition to UC_AWAITS_*: an event is to be recorded. */
#define UC_HAS_NEWS 0x80

static __always_inline enum uc_reason uc_port_translate(const struct uc_key *key,
							const struct uc_segment *segment,
							__u64 now_ns, struct uc_edit *edit,
							__u8 *follow_up, __u32 *number)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, key);
	__u32 tag = uc_tag_of(key);
	enum uc_reason reason;

	if (!uc_lock_slot(slot, tag))
		return UC_NO_HANDSHAKE;
	*number = slot->number;
	uc_before_segment(slot);
	reason = uc_translate(&slot->flow, segment, now_ns, edit);
	if (segment->direction == UC_TO_GUEST)
		*follow_up = uc_awaits(&slot->flow);
	if (uc_has_news(slot))
		*follow_up |= UC_HAS_NEWS;
	bpf_spin_unlock(&slot->lock);
	if (uc_forgets(reason))
		uc_forget(key);
	return reason;
}

static __always_inline int uc_port(struct __sk_buff *skb, enum uc_direction direction)
{
	struct uc_segment segment = {};
	struct uc_offsets at = {};
	struct uc_key key = {.ifindex = skb->ifindex};
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 number = UC_NUMBER_NONE;
	struct uc_edit edit;
	enum uc_reason reason = uc_parse(skb, &key, &segment, &at, direction);

	if (reason == UC_TRANSLATED) {
		__u8 follow_up = 0;

		edit = uc_edit_none(&segment);
		if ((segment.flags & (UC_SYN | UC_RST)) == UC_SYN) {
			uc_tail_call(skb, UC_CALL_OPEN, &key, &segment, &at, &edit, reason, now_ns);
			reason = UC_NO_POLICY;
		} else {
			reason = uc_port_translate(&key, &segment, now_ns, &edit, &follow_up,
						   &number);
		}
		if (follow_up & UC_AWAITS_SHARE)
			uc_tail_call_share(skb, &key, &segment, &at, &edit,
					   follow_up & ~UC_HAS_NEWS, now_ns);
		if (follow_up & UC_HAS_NEWS || uc_is_news(reason))
			uc_tail_call(skb, UC_CALL_NOTE, &key, &segment, &at, &edit, reason, now_ns);
		if (uc_write(skb, &at, &segment, &edit))
			reason = UC_EDIT_FAILED;
	}
	return uc_verdict(&key, number, reason);
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

/* Reached from the program above only. */
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
	return uc_verdict(&now->key, now->number, reason);
}

/* Reached from that one, and ends in it again: its flow has no group yet, or another weight. */
SEC("tc")
int uc_join_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return TC_ACT_UNSPEC;
	uc_hear(skb, now);
	return uc_write_pending(skb, now);
}

/* Reached from both. */
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

/* On no port: user space runs it to have the next few places looked at. */
SEC("tc")
int uc_collect_idle(struct __sk_buff *skb)
{
	return uc_collect(skb);
}

/* Reached from all of them: something has happened to a flow. */
SEC("tc")
int uc_note_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();

	if (!now)
		return TC_ACT_UNSPEC;
	uc_note_news(skb);
	return uc_write_pending(skb, now);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
