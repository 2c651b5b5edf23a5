/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How many SYNs of flows that are not held a port hands over: a flood takes a bounded part of user
 * space's time.
 */
#ifndef UC_HOLD_FLOOD_H
#define UC_HOLD_FLOOD_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../core/segment.h"
#include "gate.h"
#include "maps.h"

/*
 * Returns whether a segment of a flow that is not held is handed over: a SYN, or the peer's
 * SYN-ACK, which may come before user space has added the flow of the guest's SYN. The guest's
 * SYN-ACK cannot, since the peer's SYN reaches the guest through user space. Of each kind at most
 * UC_HOLD_SYNS_MAX are handed over in an interval; all others pass, and so do their connections.
 * Two CPUs at once may hand over a few more, or begin an interval twice.
 */
static __always_inline int uc_hold_may_open(const struct __sk_buff *skb,
					    const struct uc_segment *segment)
{
	__u64 interval = bpf_ktime_get_ns() / UC_HOLD_SYNS_NS;
	struct uc_hold_port *port;
	struct uc_hold_syns *syns;
	__u8 is_from_guest = segment->direction == UC_FROM_GUEST;
	__u8 is_answer = !!(segment->flags & UC_ACK);

	if (!(segment->flags & UC_SYN) || (is_answer && is_from_guest))
		return 0;
	port = uc_hold_port_of(skb);
	if (!port)
		return 0;
	syns = is_from_guest ? &port->from_guest : is_answer ? &port->answers : &port->to_guest;
	if (syns->interval != interval) {
		syns->interval = interval;
		syns->count = 0;
	}
	if (syns->count >= UC_HOLD_SYNS_MAX) {
		struct uc_hold_passed *passing = uc_only_entry(&passed);

		if (passing)
			passing->syns++;
		return 0;
	}
	__sync_fetch_and_add(&syns->count, 1);
	return 1;
}

#endif
