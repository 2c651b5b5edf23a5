/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The guard from the guest's side: how far its windows have reached, as it reads them, and whether
 * it has kept to them. If it has, the guard drops nothing of it that ends inside a window that it
 * was given.
 */
#ifndef UC_FUZZ_HONEST_H
#define UC_FUZZ_HONEST_H

#include "invariants.h"

struct honest {
	__u32 given; /* the furthest right edge */
	__u8 knows;  /* a window was given since the flow began or went on elsewhere */
	__u8 keeps;  /* the guest has sent nothing beyond */
};

/* The bits of flows whose guest is not limited by its windows, or whose numbers are in doubt. */
#define UNCERTAIN (UC_FLOW_HELD | UC_FLOW_UNSURE | UC_FLOW_BLIND)

/* Starts again where the flow has begun, or goes on elsewhere. */
static void start_again(struct honest *guest, const struct call *call)
{
	const struct uc_flow *flow = call->after;
	__u8 knows = !!(flow->bits & UC_FLOW_GIVEN);
	__u32 least = knows ? flow->furthest_edge : flow->snd_una;

	*guest = (struct honest){
		.given = flow->furthest_edge,
		.knows = knows,
		/* the guest may have sent data that no window covers */
		.keeps = call->reason != UC_RESYNCED && !uc_after(flow->snd_nxt, least),
	};
}

/* Notes the window of an ACK that the guest accepts. */
static void hear_window(struct honest *guest, const struct call *call)
{
	const struct uc_flow *flow = call->after;
	__u32 edge = call->segment->ack + ((__u32)call->edit->window << uc_wscale(flow));

	if (call->segment->ack != flow->snd_una || is_discarded(call->before, call->segment) ||
	    flow->bits & UC_FLOW_HELD)
		return;
	if (!guest->knows || uc_after(edge, guest->given))
		guest->given = edge;
	guest->knows = 1;
}

/* Checks a segment of the guest against what it was given. */
static void check_honest(struct honest *guest, const struct call *call)
{
	const struct uc_flow *flow = call->before;
	__u32 end = uc_segment_end(call->segment);

	if (call->reason != UC_BEYOND_EDGE) {
		if (end != call->segment->seq && (!guest->knows || uc_after(end, guest->given)))
			guest->keeps = 0;
		return;
	}
	if (!guest->knows || !guest->keeps || flow->bits & UNCERTAIN)
		return;
	require("the guard drops nothing inside what was given",
		uc_after(end, guest->given) || end - flow->snd_una + (1U << 29) > 1U << 30);
}

/* Returns whether the flow has begun, or goes on elsewhere. */
static __u8 is_elsewhere(const struct call *call)
{
	const struct uc_flow *before = call->before, *after = call->after;

	if (after->stage != before->stage || (before->bits ^ after->bits) & UNCERTAIN)
		return 1;
	return call->reason == UC_RESYNCED ||
	       (call->segment->flags & UC_SYN && before->furthest_edge != after->furthest_edge);
}

/* Notes one call, and checks it. */
static void honest_call(struct honest *guest, const struct call *call)
{
	const struct uc_flow *before = call->before, *after = call->after;

	if (!after)
		return;
	if (!before || is_elsewhere(call)) {
		start_again(guest, call);
		return;
	}
	if (call->segment->flags & (UC_RST | UC_SYN))
		return;
	if (call->segment->direction == UC_FROM_GUEST)
		check_honest(guest, call);
	else if (!uc_drops(call->reason))
		hear_window(guest, call);
	if (uc_before(guest->given, after->snd_una))
		guest->given = after->snd_una;
}

#endif
