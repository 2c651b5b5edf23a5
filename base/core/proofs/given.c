/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whole calls of uc_translate() under a guard, on a port that sees both directions: no data inside
 * a window that was given is dropped, and `furthest_edge` goes on covering each edge given, until
 * the guest's data up to there are acknowledged. PROOF_ACK: a segment to the guest; PROOF_DATA: one
 * of the guest.
 *
 * Left out are flows that do not know where the guest's data are, UC_FLOW_UNSURE and UC_FLOW_BLIND
 * (guard.c has what holds of them), and segments of the guest from further back than the largest
 * window.
 */
#include "state.h"

#define WINDOW_MOST (__u32) UC_WINDOW_MAX
/* The largest slack of the guard: of the most segments of the largest size. */
#define SLACK_MOST (255U * 65535)
/* No packet is longer (IPv6 jumbograms apart, which no port parses). */
#define PACKET_MOST (1U << 20)

/* Returns whether the furthest edge covers `given`. */
static __u8 covers(const struct uc_flow *flow, __u32 given)
{
	return flow->bits & UC_FLOW_GIVEN && !uc_after(given, flow->furthest_edge);
}

/* Returns whether the guest has sent nothing beyond the furthest edge, and the furthest edge covers
 * the last one. */
static __u8 is_kept(const struct uc_flow *flow)
{
	return uc_flight_bytes(flow) <= flow->furthest_edge - flow->snd_una &&
	       covers(flow, flow->edge) && flow->edge - flow->snd_una <= WINDOW_MOST;
}

/* Returns whether edges and data lie within the largest window, and the data within the slack. */
static __u8 is_guarded(const struct uc_flow *flow)
{
	__u32 room_bytes = flow->furthest_edge - flow->snd_una;

	return flow->bits & UC_FLOW_GIVEN && room_bytes <= WINDOW_MOST &&
	       uc_flight_bytes(flow) <= WINDOW_MOST &&
	       uc_flight_bytes(flow) <= room_bytes + SLACK_MOST;
}

#ifdef PROOF_ACK
/* A segment to the guest. A window that waits for a group's answer is share.c's. */
static void call(struct uc_flow *flow, const struct uc_segment *segment, __u32 given)
{
	__u64 now_ns = any_long();
	__u8 kept = is_kept(flow), accepted;
	enum uc_reason reason;
	struct uc_edit edit;
	__u32 edge;

	/* so that a change shows that the segment was accepted */
	assume(segment->direction == UC_TO_GUEST && flow->seen_ns != now_ns);
	reason = uc_translate(flow, &annex, segment, now_ns, &edit);
	prove("an edge that was given stays covered until it is acknowledged",
	      covers(flow, given) || !uc_after(given, flow->snd_una));
	if (flow->bits & UC_FLOW_AWAITS)
		return;
	prove("edges and data stay within the largest window", is_guarded(flow));
	accepted = flow->seen_ns == now_ns && !(segment->flags & UC_RST);
	if (!kept || !accepted || flow->bits & UC_FLOW_HELD || !uc_writes(flow))
		return;
	edge = segment->ack + ((__u32)edit.window << uc_wscale(flow));
	prove("the last edge stays covered", is_kept(flow));
	prove("a window that is written is covered",
	      segment->ack != flow->snd_una || !uc_after(edge, flow->furthest_edge));
}
#else
/* A segment of the guest. */
static void call(struct uc_flow *flow, const struct uc_segment *segment, __u32 given)
{
	struct uc_edit edit;
	enum uc_reason reason;

	assume(segment->direction == UC_FROM_GUEST);
	assume(segment->seq - (flow->snd_una - WINDOW_MOST) - 1 < 2 * WINDOW_MOST);
	reason = uc_translate(flow, &annex, segment, any_long(), &edit);
	prove("data inside what was given is not dropped",
	      reason != UC_BEYOND_EDGE ||
		      uc_segment_end(segment) - flow->snd_una - 1 >= given - flow->snd_una);
	/* after a pause the flow may go on from the guest's own number: missed.h */
	if (flow->bits & UC_FLOW_BLIND)
		return;
	prove("an edge that was given stays covered", covers(flow, given));
	prove("edges and data stay within the largest window", is_guarded(flow));
}
#endif

int main(void)
{
	__u32 given = any_word();
	struct uc_flow flow = sound_flow();
	struct uc_segment segment = any_segment();

	assume(flow.stage == UC_TRANSLATING && uc_guard_segments(&flow.policy));
	assume(!(flow.bits & (UC_FLOW_UNSURE | UC_FLOW_BLIND)) && is_guarded(&flow));
	assume(covers(&flow, given) && given - flow.snd_una <= WINDOW_MOST);
	assume(!(segment.flags & UC_SYN) && !segment.blind);
	assume(segment.payload_bytes <= PACKET_MOST);
	call(&flow, &segment, given);
	return 0;
}
