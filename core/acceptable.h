/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which segments of the peer the guest accepts (RFC 9293 §3.10.7.4, RFC 5961). Any other changes
 * nothing in the flow (invariant "out-of-window segments"): an attacker who is not on the path has
 * to guess sequence and ACK number.
 *
 * The port does not know RCV.NXT, only the guest's last ACK, which may lag behind. So a segment is
 * acceptable if it ends at or after that ACK and begins within the window. The window is the
 * largest that the guest has ever advertised, because the peer may still use one that the guest has
 * reduced since; it is stored rounded up to a power of two, to save room. For the peer's receive
 * window, the largest value that its scale can express counts.
 *
 * A guest must not get rid of the peer's marks by acknowledging data that the peer has not sent. So
 * if the guest acknowledges data that never passed the port, segments near the end of the data that
 * did pass stay acceptable. If the guest does not lie, the port has missed data of the peer; then
 * the peer's next data follow the guest's ACK, and the port goes on from there.
 */
#ifndef UC_ACCEPTABLE_H
#define UC_ACCEPTABLE_H

#include "flow.h"
#include "guard.h"
#include "minmax.h"

/* Parts of uc_flow.guest_window: the guest's window scale, and the number of bits of its largest
 * window field, less one. */
#define UC_GUEST_SCALE(guest_window) ((guest_window)&15)
#define UC_GUEST_BITS(guest_window)  ((guest_window) >> 4)

/* Returns the largest window that the guest has advertised, rounded up to a power of two: 2^16
 * to 2^30 bytes. */
static __always_inline __u32 uc_guest_window_bytes(const struct uc_flow *flow)
{
	return 2U << (UC_GUEST_BITS(flow->guest_window) + UC_GUEST_SCALE(flow->guest_window));
}

/* Sets the guest's window scale once SYN and SYN-ACK have settled it, and the guest's window to
 * 2^16 bytes, whatever they advertised: their windows are not scaled (RFC 7323 §2.2). */
static __always_inline void uc_scale_guest_window(struct uc_flow *flow, __u8 wscale)
{
	wscale = uc_min(wscale, UC_WSCALE_MAX);
	flow->guest_window = (15 - wscale) << 4 | wscale;
}

/* Raises the stored window if the guest's window field (unscaled) exceeds it. Each call at most
 * doubles the stored window, so a much larger field takes effect within a few segments. */
static __always_inline void uc_learn_guest_window(struct uc_flow *flow, __u16 window)
{
	if (window >> UC_GUEST_BITS(flow->guest_window) >= 2)
		flow->guest_window += 1 << 4;
}

/* Returns whether the guest's last ACK is of data that passed the port. */
static __always_inline __u8 uc_knows_ack(const struct uc_flow *flow)
{
	return flow->peer_nxt - flow->echoed_ack <= uc_guest_window_bytes(flow);
}

/* Returns whether a segment of the peer lies in the guest's receive window. */
static __always_inline __u8 uc_is_in_window(const struct uc_flow *flow,
					    const struct uc_segment *segment)
{
	__u32 window_bytes = uc_guest_window_bytes(flow);

	if (!uc_before(uc_segment_end(segment), flow->echoed_ack) &&
	    !uc_after(segment->seq, flow->echoed_ack + window_bytes))
		return 1;
	return !uc_knows_ack(flow) &&
	       segment->seq - (flow->peer_nxt - window_bytes) <= 2 * window_bytes;
}

/* Returns the furthest ACK number that the peer may send: SND.NXT, or the end of what the guest may
 * have sent where the port did not see it (missed.h). */
static __always_inline __u32 uc_ack_end(const struct uc_flow *flow)
{
	__u32 end = flow->snd_nxt + !!(flow->bits & UC_FLOW_PROBED);
	__u32 edge = flow->furthest_edge + uc_slack_bytes(flow);

	return flow->bits & UC_FLOW_GIVEN && uc_after(edge, end) ? edge : end;
}

/* Returns whether an ACK number of the peer is acceptable: RFC 5961 §5, or, as long as the peer has
 * not shown that it got the guest's SYN-ACK, RFC 9293 §3.10.7.4. While UC_FLOW_UNSURE is set, any
 * ACK number is acceptable, since it decides where the guest's data are: uc_make_sure(). */
static __always_inline __u8 uc_may_acknowledge(const struct uc_flow *flow, __u32 ack)
{
	if (flow->bits & UC_FLOW_UNSURE)
		return 1;
	if (!(flow->bits & UC_FLOW_ANSWERED))
		return ack - flow->snd_una <=
		       uc_flight_bytes(flow) + !!(flow->bits & UC_FLOW_PROBED);
	return !uc_before(ack, flow->snd_una - (65535U << uc_wscale(flow))) &&
	       !uc_after(ack, uc_ack_end(flow));
}

/* Returns whether the guest accepts a segment of the peer, in an established flow. */
static __always_inline __u8 uc_is_acceptable(const struct uc_flow *flow,
					     const struct uc_segment *segment)
{
	return segment->flags & UC_ACK && uc_is_in_window(flow, segment) &&
	       uc_may_acknowledge(flow, segment->ack);
}

/* Updates the end of the peer's data (peer_nxt) from an acceptable segment of the peer. */
static __always_inline void uc_accept(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u32 end = uc_segment_end(segment);

	if (uc_after(end, flow->peer_nxt) || !uc_knows_ack(flow))
		flow->peer_nxt = end;
}

/*
 * Returns whether a RST ends the connection. A RST of the guest always does. A RST of the peer must
 * have exactly the sequence number that the guest expects (RFC 5961 §3): its last ACK number, or
 * the end of the data that passed since. In answer to a SYN it must acknowledge that SYN (RFC 9293
 * §3.10.7.3).
 */
static __always_inline __u8 uc_resets(const struct uc_flow *flow, const struct uc_segment *segment)
{
	if (segment->direction == UC_FROM_GUEST)
		return 1;
	if (flow->stage == UC_SYN_SENT)
		return segment->flags & UC_ACK &&
		       segment->ack - flow->snd_una - 1 < uc_flight_bytes(flow);
	return segment->seq == flow->echoed_ack || segment->seq == flow->peer_nxt;
}

#endif
