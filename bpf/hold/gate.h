/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The frames that user space sends at a port, known by the socket that they come from: they have
 * the mark and priority of the packet that was held.
 */
#ifndef UC_HOLD_GATE_H
#define UC_HOLD_GATE_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

/* Returns the port of a packet; NULL if no packets are held there. */
static __always_inline struct uc_hold_port *uc_hold_port_of(const struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;

	return bpf_map_lookup_elem(&ports, &ifindex);
}

/* Returns the verdict for a packet towards the guest. If user space has sent it: a frame for the
 * guest skips all other programs; one for the network goes into the port as if the guest had sent
 * it. Any other packet: TC_ACT_UNSPEC. */
static __always_inline int uc_hold_pass_own(struct __sk_buff *skb)
{
	const struct uc_hold_port *port;
	__u64 cookie;

	/* what is forwarded has no socket */
	if (!skb->sk)
		return TC_ACT_UNSPEC;
	port = uc_hold_port_of(skb);
	if (!port)
		return TC_ACT_UNSPEC;
	cookie = bpf_get_socket_cookie(skb);
	if (cookie == port->to_guest_cookie)
		return TC_ACT_OK;
	/* its mark stays on the frame, for the program of the other direction */
	if (cookie == port->to_network_cookie)
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	return TC_ACT_UNSPEC;
}

/* Returns whether a packet from the guest is one that user space sent into the port, and removes
 * its mark. */
static __always_inline int uc_hold_is_own(struct __sk_buff *skb)
{
	const struct uc_hold_port *port;

	if (!skb->mark)
		return 0;
	port = uc_hold_port_of(skb);
	if (!port || skb->mark != port->to_network_mark)
		return 0;
	skb->mark = 0;
	return 1;
}

#endif
