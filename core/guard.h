/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The guard: a window is a promise that the guest keeps, and a guest that doesn't gains nothing.
 * Data that ends beyond the furthest edge it was ever given, and policy's slack of segments behind
 * that, never leaves the port. That holds of a translated flow, and of what the home can read: a
 * fragment, or TCP behind an IPv6 extension header, is no segment of one.
 *
 * The furthest edge and not the last: what a later window takes back, the guest may have sent
 * before that window reached it. A guest that fills its windows has nothing to be taken back, so
 * the difference is no room for one that doesn't keep to them. Each window is taken as the guest
 * reads it, from the header and scaled (RFC 7323 §2.3); so neither rounding nor a shrunken window
 * can make a guest that keeps to its windows lose a segment. The slack, a segment at least, has
 * room for the byte of a window probe and for the FIN behind a full window.
 *
 * A super-segment that begins inside and ends beyond is dropped whole: the port can't cut it, and
 * whoever makes one does not look at windows.
 */
#ifndef UC_GUARD_H
#define UC_GUARD_H

#include "flow.h"
#include "segment.h"

/*
 * The guest was given a window that ends here. Law 2 has every window hold what was sent, also what
 * was sent into the slack; but that gives no right to a slack behind it, or the edge would go up by
 * one with every ACK. Only where no such data are in flight, or the law's own window has grown past
 * them, is the edge one that the guest may count on.
 */
static __always_inline void uc_give(struct uc_flow *flow, __u32 edge)
{
	__u32 grain_bytes = 1U << (flow->wscale & 15);
	__u8 first = !(flow->bits & UC_FLOW_GIVEN);

	flow->edge = edge;
	flow->bits |= UC_FLOW_GIVEN;
	/* never below what was acknowledged: comparisons are circular */
	if (!first && uc_after(flow->snd_nxt, flow->furthest_edge) &&
	    uc_before(edge, flow->snd_nxt + grain_bytes))
		edge = flow->snd_una;
	if (first || uc_after(edge, flow->furthest_edge))
		flow->furthest_edge = edge;
}

/* A segment of the guest: is it more than it was ever given? */
static __always_inline __u8 uc_is_beyond(const struct uc_flow *flow,
					 const struct uc_segment *segment)
{
	__u32 slack_bytes = (__u32)flow->policy.guard_segments * flow->mss_bytes;
	__u32 end = uc_segment_end(segment);

	if (!flow->policy.guard_segments || flow->policy.observe)
		return 0;
	/* pure ACKs say where the guest stands, which may be beyond what got through */
	if (!(flow->bits & UC_FLOW_GIVEN) || end == segment->seq)
		return 0;
	return uc_after(end, flow->furthest_edge + slack_bytes);
}

#endif
