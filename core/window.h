/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Converts the law's window W in bytes into the 16 bits of the header (invariants "no shrink" and
 * "whole segments").
 *
 *   room   = whole segments between SND.NXT and SND.UNA + W, so that the right edge falls on a
 *            boundary of the guest's segments: a window that ends inside a segment makes the guest
 *            send a sub-MSS segment
 *   window = flight + room; at least the flight, so that everything sent is inside; at most the
 *            receiver's window; 0 only if the receiver's is
 *
 * With the receiver's window scale the boundary may not be a multiple of the window's unit. Then
 * the window is rounded down. Rounded up, it would make the guest send a sub-MSS segment of a few
 * bytes, which is acknowledged without the receiver's delay: at a scale of 10 and windows of four
 * segments the rate would be 50 % too high. Rounded down, it makes a Linux guest send one sub-MSS
 * segment, a few bytes short of the MSS. While that is in flight, Nagle's rule (RFC 896) keeps the
 * guest from sending another, so until it is acknowledged the window is rounded up, and the guest
 * sends full segments.
 *
 * Until its first reduction the law's window is the guest's own (RFC 6928, RFC 5681 §3.1), which
 * counts segments too: it sends no part of the next one, and a window rounded down would cost it
 * one. A first answer of ten segments would take two round trips. So such a window is rounded up,
 * until a sub-MSS segment fills one.
 *
 * A guest that avoids the silly window syndrome (RFC 9293 §3.8.6.2.1) never sends a part of a
 * segment because the window ends there: of a window rounded up it uses the full segments only.
 * Profile `rfc` assumes this of a guest until a sub-MSS segment of it has filled a window.
 *
 * Linux sets PSH on the last segment of each burst that it cuts by TSO, and Linux receivers (6.6
 * and later) acknowledge such a segment at once. A native sender cuts bursts of at most half its
 * window. A guest whose own window is much larger than the law's sends three segments in one burst,
 * and the ACK of the odd segment isn't delayed, unlike a native sender's: that is worth 15 % of the
 * rate at windows of four segments. So for a guest that was seen to do this (track.h), a room of
 * three or five segments that is more than half the window is made one segment smaller; the odd
 * segment follows with the next ACK.
 */
#ifndef UC_WINDOW_H
#define UC_WINDOW_H

#include "laws/law.h"

/* The largest window of a SYN or SYN-ACK, which is not scaled (RFC 7323 §2.2). */
#define UC_UNSCALED_MAX 65535
/* The smallest first window: with less than two segments a Linux guest halves its segment size for
 * good. */
#define UC_FIRST_WINDOW_SEGMENTS 2

/* Returns the law's window in bytes, less the guard's slack if the guest has sent into the slack
 * (UC_FLOW_OVERRAN): so such a guest, too, has at most the law's window in flight. */
static __always_inline __u32 uc_allowed_bytes(const struct uc_flow *flow)
{
	__u32 law_bytes = uc_law_window_bytes(flow);
	__u32 slack_bytes = uc_guard_segments(&flow->policy) * flow->mss_bytes;

	if (!(flow->bits & UC_FLOW_OVERRAN))
		return law_bytes;
	return law_bytes > slack_bytes ? law_bytes - slack_bytes : 0;
}

/* Returns how many units of 2^wscale bytes hold `bytes`, rounded up. */
static __always_inline __u32 uc_units_up(__u32 bytes, __u8 wscale)
{
	return (bytes + (1U << wscale) - 1) >> wscale;
}

/*
 * Learns whether the guest sends pairs of segments (Linux's TSO autosizing on a long path). Then it
 * uses two segments of a room that is a few bytes short of three, and sends no part of the third.
 */
static __always_inline void uc_learn_pairs(struct uc_flow *flow, __u32 grain_bytes)
{
	__u32 left_bytes = flow->edge - flow->snd_nxt;

	if (flow->given_window < flow->peer_window && uc_offered_segments(flow) == 3 &&
	    left_bytes < flow->mss_bytes && left_bytes + grain_bytes > flow->mss_bytes)
		flow->bits |= UC_FLOW_PAIRS;
}

/* Returns whether the law's window is still the guest's own: neither has been reduced, and no
 * sub-MSS segment has shown that the guest would have sent more. */
static __always_inline __u8 uc_is_guests_own(const struct uc_flow *flow)
{
	return flow->reno.ssthresh == UC_INFINITE_SSTHRESH && !(flow->bits & UC_FLOW_RUNTS);
}

/* Returns the wanted right edge, in bytes from SND.UNA, before it is rounded to the window's unit;
 * sets `up` to whether it is to be rounded up. */
static __always_inline __u32 uc_target_bytes(struct uc_flow *flow, __u32 grain_bytes, __u8 *up)
{
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;
	__u32 law_bytes = uc_allowed_bytes(flow);
	__u32 flight_bytes = uc_flight_bytes(flow);
	__u32 segments = law_bytes > flight_bytes ? (law_bytes - flight_bytes) / mss_bytes : 0;

	uc_learn_pairs(flow, grain_bytes);
	if (flow->policy.profile == UC_PROFILE_RFC && !(flow->bits & UC_FLOW_RUNTS)) {
		*up = 1;
		return flight_bytes + segments * mss_bytes;
	}
	if (grain_bytes > 1 && uc_is_guests_own(flow)) {
		/* what is left of such a room says nothing of how the guest sends */
		uc_set_offered(flow, 0, 0);
		*up = 1;
		return flight_bytes + segments * mss_bytes;
	}
	*up = !(flow->bits & UC_FLOW_NODELAY) && uc_after(flow->runt_seq, flow->snd_una);
	if (flow->bits & UC_FLOW_BULK && segments > 2 && segments % 2 &&
	    2 * segments > law_bytes / mss_bytes) {
		segments--;
	} else if (!*up && flow->bits & UC_FLOW_PAIRS && segments > 1) {
		/* an even room is rounded up: pairs fit into it whole; of an odd room the last
		 * segment is left out, and follows with the next ACK */
		*up = segments % 2 == 0;
		segments -= segments % 2;
	}
	uc_set_offered(flow, segments, 0);
	return flight_bytes + segments * mss_bytes;
}

/* Returns the window field of an ACK to the guest whose ACK number is SND.UNA. */
static __always_inline __u16 uc_window(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u8 wscale = uc_wscale(flow), up;
	__u32 flight_bytes = uc_flight_bytes(flow);
	__u32 bytes = uc_target_bytes(flow, 1U << wscale, &up);
	__u32 field = up ? uc_units_up(bytes, wscale) : bytes >> wscale;

	/* with nothing in flight no ACK would come that could open a closed window */
	field = uc_max(field, uc_units_up(flight_bytes ? flight_bytes : flow->mss_bytes, wscale));
	return uc_min(field, segment->window);
}

/* Returns the window field of a SYN-ACK to the guest: the law's initial window, unscaled. */
static __always_inline __u16 uc_first_window(const struct uc_flow *flow,
					     const struct uc_segment *segment)
{
	__u32 bytes = uc_law_window_bytes(flow) / flow->mss_bytes * flow->mss_bytes;

	bytes = uc_max(bytes, UC_FIRST_WINDOW_SEGMENTS * flow->mss_bytes);
	bytes = uc_min(bytes, UC_UNSCALED_MAX);
	return uc_min(bytes, segment->window);
}

#endif
