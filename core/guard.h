/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The guard: data that ends beyond the furthest edge ever advertised to the guest, plus policy's
 * slack of segments, never leaves the port. So in a translated flow a guest gains nothing by
 * ignoring its windows. The guard covers nothing else: not flows that pass, not data before the
 * first window, not segments that the platform can't parse. Strict mode lets none of these go
 * (strict.h). Neither limits what the peer gives away: its ACK numbers and echoes are trusted.
 *
 * The furthest edge counts, not the last: if a later window is smaller, the guest may have sent
 * before it arrived. A guest that fills its windows leaves nothing to take back, so this gives a
 * guest that ignores them no extra room. Each window counts as the guest reads it, from the header
 * and scaled (RFC 7323 §2.3), so neither rounding nor a shrunken window makes an honest guest lose
 * a segment. The slack is at least one segment, which covers the byte of a window probe and the FIN
 * after a full window.
 *
 * Nor does the slack enlarge the window of a guest that sends into it: from then on the flow's
 * windows are smaller by the slack (window.h). An honest guest whose port has missed an ACK may be
 * taken for such a guest, and then loses no more than the slack.
 *
 * In a held flow (UC_FLOW_HELD) the edge is the law's window, of which the guest isn't told.
 *
 * A super-segment that begins inside and ends beyond is dropped whole: the port can't cut it, and a
 * guest that sends one ignores windows.
 */
#ifndef UC_GUARD_H
#define UC_GUARD_H

#include "flow.h"
#include "minmax.h"
#include "segment.h"

/*
 * Records the right edge of a window advertised to the guest. Invariant "no shrink": no advertised
 * window ends below SND.NXT, so windows also cover data sent into the slack. Such an edge must not
 * become the furthest one, or the guest would get another slack behind it with each ACK. So the
 * furthest edge moves only while no data are in flight beyond it, or when the law's own window has
 * grown past them.
 */
static __always_inline void uc_give(struct uc_flow *flow, __u32 edge)
{
	__u32 grain_bytes = 1U << uc_wscale(flow);
	__u8 first = !(flow->bits & UC_FLOW_GIVEN);

	flow->edge = edge;
	flow->bits |= UC_FLOW_GIVEN;
	/* at least SND.UNA, so that circular comparisons stay right */
	if (!first && uc_after(flow->snd_nxt, flow->furthest_edge) &&
	    uc_before(edge, flow->snd_nxt + grain_bytes))
		edge = flow->snd_una;
	if (first || uc_after(edge, flow->furthest_edge))
		flow->furthest_edge = edge;
}

/* Returns how far beyond the furthest edge an honest guest may have sent: policy's slack, and
 * without a guard one segment, for the byte of a window probe and the FIN. */
static __always_inline __u32 uc_slack_bytes(const struct uc_flow *flow)
{
	return uc_max(uc_guard_segments(&flow->policy), 1) * flow->mss_bytes;
}

/* Sets UC_FLOW_OVERRAN if, under a guard, data of the guest ends more than 2 bytes beyond the
 * furthest edge: a window probe and a FIN take one byte each. */
static __always_inline void uc_note_overrun(struct uc_flow *flow, const struct uc_segment *segment)
{
	if (uc_guard_segments(&flow->policy) && flow->bits & UC_FLOW_GIVEN &&
	    uc_after(uc_segment_end(segment), flow->furthest_edge + 2) && segment->payload_bytes)
		flow->bits |= UC_FLOW_OVERRAN;
}

/* Returns whether a segment of the guest ends beyond the furthest edge plus policy's slack. Without
 * a guard it never does. Before the first window, only strict mode refuses data. */
static __always_inline __u8 uc_is_beyond(const struct uc_flow *flow,
					 const struct uc_segment *segment)
{
	__u32 end = uc_segment_end(segment);

	/* pure ACKs carry SND.NXT, which may be beyond what passed the guard */
	if (!uc_guard_segments(&flow->policy) || end == segment->seq)
		return 0;
	if (!(flow->bits & UC_FLOW_GIVEN))
		return uc_is_strict(&flow->policy) && segment->payload_bytes;
	/* before the peer has confirmed where the guest's data is, none from further back */
	if (flow->bits & (UC_FLOW_UNSURE | UC_FLOW_BLIND) && uc_before(segment->seq, flow->snd_una))
		return 1;
	return uc_after(end, flow->furthest_edge + uc_slack_bytes(flow));
}

#endif
