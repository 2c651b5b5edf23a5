/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Packets of a tenant port on their way to the process that holds them, and back. Three programs
 * around the port's own:
 *
 *   uc_hold_gate        towards the guest, before all others: frames that the process sends
 *   uc_hold_to_guest    towards the guest, after all others: hands packets over and removes them
 *   uc_hold_from_guest  from the guest, after all others: hands over copies
 *
 * So each packet passes every program of the port once: on its first way, or, if the process sends
 * the guest's data again, as a segment of the guest. A packet that cannot be handed over passes:
 * without a process, with one that does not renew its heartbeat, or with a full ring.
 *
 * They use UAPI headers only.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "../packet.h"
#include "flood.h"
#include "gate.h"
#include "give.h"
#include "newest.h"

static __always_inline void uc_hold_count_passed(void)
{
	struct uc_hold_passed *passing = uc_only_entry(&passed);

	if (passing)
		passing->packets++;
}

/* Hands a packet over if its flow is held or it may begin one. Returns 1 if user space gets it. */
static __always_inline int uc_hold(struct __sk_buff *skb, const struct uc_hold_control *say,
				   enum uc_direction direction)
{
	struct uc_hold_head head = {.key.ifindex = skb->ifindex, .direction = direction};
	struct uc_segment segment = {};
	struct uc_hold_flow *flow;
	struct uc_frame frame = {};
	void *flows, *ring;

	if (bpf_ktime_get_ns() >= say->alive_until_ns)
		return 0;
	flows = bpf_map_lookup_elem(&held_flows, &head.key.ifindex);
	/* a copy would lose a tag in the metadata */
	if (!flows || uc_parse(skb, &head.key, &segment, &frame, direction) != UC_TRANSLATED ||
	    uc_is_tagged(skb, &frame))
		return 0;
	flow = bpf_map_lookup_elem(flows, &head.key);
	if (!flow && !uc_hold_may_open(skb, &segment))
		return 0;
	if (flow && direction == UC_FROM_GUEST)
		uc_hold_note(skb, flow, &segment, &frame);
	/* an ACK of the guest says nothing about what it sends */
	if (direction == UC_FROM_GUEST && !segment.payload_bytes &&
	    !(segment.flags & (UC_SYN | UC_FIN | UC_RST)))
		return 0;
	head.mark = skb->mark;
	head.priority = skb->priority;
	head.frame_bytes = skb->len;
	head.payload_bytes = segment.payload_bytes;
	head.gso_size = skb->gso_size;
	head.tcp_at = frame.tcp;
	head.options = segment.options;
	ring = bpf_map_lookup_elem(&rings, &head.key.ifindex);
	if (!ring)
		return 0;
	if (uc_hold_give(skb, ring, &head))
		return 1;
	uc_hold_count_passed();
	return 0;
}

SEC("tcx/egress")
int uc_hold_gate(struct __sk_buff *skb)
{
	return uc_hold_pass_own(skb);
}

SEC("tcx/egress")
int uc_hold_to_guest(struct __sk_buff *skb)
{
	const struct uc_hold_control *say = uc_only_entry(&control);

	if (!say || !uc_hold(skb, say, UC_TO_GUEST))
		return TC_ACT_UNSPEC;
	/* Frees the packet, since there is no such interface. TC_ACT_SHOT would tell a sender on
	 * this host of congestion, and TCX has no TC_ACT_STOLEN. */
	return bpf_redirect(0, 0);
}

SEC("tcx/ingress")
int uc_hold_from_guest(struct __sk_buff *skb)
{
	const struct uc_hold_control *say = uc_only_entry(&control);

	if (!uc_hold_is_own(skb) && say)
		uc_hold(skb, say, UC_FROM_GUEST);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
