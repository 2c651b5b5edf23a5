/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The guard's parts, which no law takes part in. uc_is_beyond(): no data inside a window that was
 * given is dropped. uc_give(), which core.h calls with each edge that it has written: an edge that
 * was given stays covered, and the new one is covered if the guest has sent nothing beyond the
 * furthest so far. uc_go_on(): where the port has missed ACKs, the edges given stay covered.
 *
 * In an unsure flow (handshake.h) it may not be known where the guest's data are: only data from
 * SND.UNA on count there.
 */
#include "state.h"

/* The furthest that an edge can lie ahead of SND.UNA: the largest window. */
#define WINDOW_MOST (__u32) UC_WINDOW_MAX

/* Returns whether the furthest edge covers `given`. */
static __u8 covers(const struct uc_flow *flow, __u32 given)
{
	return flow->bits & UC_FLOW_GIVEN && !uc_after(given, flow->furthest_edge);
}

/* Returns an arbitrary flow whose furthest edge covers `given`, an edge that the guest was given.
 */
static struct uc_flow flow_given(__u32 given)
{
	struct uc_flow flow = sound_flow();

	assume(flow.stage == UC_TRANSLATING && covers(&flow, given));
	assume(given - flow.snd_una <= WINDOW_MOST);
	assume(flow.furthest_edge - flow.snd_una <= WINDOW_MOST);
	return flow;
}

int main(void)
{
	__u32 given = any_word(), edge = any_word();
	struct uc_flow flow = flow_given(given);
	struct uc_segment segment = any_segment();
	__u8 lost = flow.bits & (UC_FLOW_UNSURE | UC_FLOW_BLIND) &&
		    uc_before(segment.seq, flow.snd_una);
	__u8 kept = uc_flight_bytes(&flow) <= flow.furthest_edge - flow.snd_una;

	if (uc_is_beyond(&flow, &segment)) {
		prove("data inside what was given is not dropped",
		      uc_segment_end(&segment) - flow.snd_una - 1 >= given - flow.snd_una || lost);
		prove("data is dropped by policy only", uc_guard_segments(&flow.policy));
		if (!lost && uc_may_go_on(&flow, &segment, any_long()) &&
		    uc_segment_end(&segment) - flow.snd_una <= WINDOW_MOST / 2 * 3) {
			uc_go_on(&flow, &annex, segment.seq);
			prove("an edge given before missed ACKs stays covered",
			      covers(&flow, given));
			return 0;
		}
	}
	assume(edge - flow.snd_una <= WINDOW_MOST);
	uc_give(&flow, edge);
	prove("an edge that was given stays covered", covers(&flow, given));
	prove("an edge given to a guest that keeps to its windows is covered",
	      !kept || covers(&flow, edge));
	prove("the furthest edge is within the largest window",
	      flow.furthest_edge - flow.snd_una <= WINDOW_MOST);
	return 0;
}
