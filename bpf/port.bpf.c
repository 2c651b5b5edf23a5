/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The two programs of a tenant port, and how one of them ends where flows are coupled. They run on
 * the host's side of the guest's interface: what the guest sends arrives there (ingress of the
 * interface), what it receives leaves there (egress).
 *
 * UAPI headers only, and nothing that 5.10 lacks. Whatever is not understood passes unchanged
 * and is counted; the verdict is "next", so other programs on the port still run, but for what the
 * guard of the port's own policy drops.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "packet.h"
#include "share.h"

/* A SYN: enter the flow, if there is to be one. */
static __always_inline enum uc_reason uc_port_open(const struct uc_key *key,
						   const struct uc_segment *segment, __u64 now_ns,
						   struct uc_edit *edit)
{
	struct uc_policy *found = bpf_map_lookup_elem(&policies, &key->port);
	/* none: pass; what was known of an older flow of the same ports must still be forgotten */
	struct uc_policy policy = {.law = UC_LAW_PASS};
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, key);
	struct uc_slot *fresh = uc_blank_slot();
	enum uc_reason reason;

	if (found)
		policy = *found;
	if (slot) {
		bpf_spin_lock(&slot->lock);
		reason = uc_open(&slot->flow, &policy, segment, now_ns, edit);
		bpf_spin_unlock(&slot->lock);
		if (uc_forgets(reason))
			bpf_map_delete_elem(&flows, key);
		else if (reason == UC_TRANSLATED && uc_is_coupled(&policy))
			uc_forget_member(slot->place);
		return reason;
	}
	if (!fresh)
		return UC_TABLE_FULL;
	reason = uc_open(&fresh->flow, &policy, segment, now_ns, edit);
	if (reason != UC_TRANSLATED)
		return reason;
	if (!uc_take_place(key, now_ns, &fresh->place) ||
	    bpf_map_update_elem(&flows, key, fresh, BPF_NOEXIST)) {
		*edit = uc_edit_none(segment);
		return UC_TABLE_FULL;
	}
	if (uc_is_coupled(&policy))
		uc_forget_member(fresh->place);
	return UC_TRANSLATED;
}

static __always_inline enum uc_reason uc_port_translate(const struct uc_key *key,
							const struct uc_segment *segment,
							__u64 now_ns, struct uc_edit *edit,
							__u8 *awaits)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, key);
	enum uc_reason reason;

	if (!slot)
		return UC_NO_HANDSHAKE;
	bpf_spin_lock(&slot->lock);
	reason = uc_translate(&slot->flow, segment, now_ns, edit);
	if (segment->direction == UC_TO_GUEST)
		*awaits = uc_awaits(&slot->flow);
	bpf_spin_unlock(&slot->lock);
	if (uc_forgets(reason))
		bpf_map_delete_elem(&flows, key);
	return reason;
}

static __always_inline int uc_port(struct __sk_buff *skb, enum uc_direction direction)
{
	struct uc_segment segment = {};
	struct uc_offsets at = {};
	struct uc_key key = {.port = skb->ifindex};
	__u64 now_ns = bpf_ktime_get_ns();
	struct uc_edit edit;
	enum uc_reason reason = uc_parse(skb, &key, &segment, &at, direction);

	if (reason == UC_TRANSLATED) {
		__u8 awaits = 0;

		edit = uc_edit_none(&segment);
		if (uc_is_syn(&segment))
			reason = uc_port_open(&key, &segment, now_ns, &edit);
		else
			reason = uc_port_translate(&key, &segment, now_ns, &edit, &awaits);
		if (awaits)
			uc_end_in_share(skb, &key, &segment, &at, &edit, awaits, now_ns);
		if (uc_write(skb, &at, &segment, &edit))
			reason = UC_EDIT_FAILED;
	}
	uc_count(reason);
	return uc_drops(reason) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

SEC("tcx/ingress")
int uc_from_guest_port(struct __sk_buff *skb)
{
	return uc_port(skb, UC_FROM_GUEST);
}

SEC("tcx/egress")
int uc_to_guest_port(struct __sk_buff *skb)
{
	return uc_port(skb, UC_TO_GUEST);
}

/* Reached from the program above only. */
SEC("tcx/egress")
int uc_share_port(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();

	if (now)
		uc_count(uc_share(skb, now));
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
