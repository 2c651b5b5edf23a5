/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * From f's window in bytes to the 16 bits of the header.
 *
 *   room   = whole segments between snd_nxt and una + W, so that the edge ends on a boundary of
 *            the guest's segments: a window that ends inside one makes a runt of it
 *   window = flight + room, never below the flight (nothing sent falls outside), never above the
 *            receiver's, never 0 unless the receiver's is
 *
 * The receiver's scale may make the window's grain miss that boundary. Then round down: rounding up
 * makes a runt of a few bytes, whose ACK comes without the receiver's delay, and a rate too high,
 * by half at a scale of 10 and windows of four segments. Rounded down, a Linux guest makes one runt
 * that is a few bytes short of a segment, and Nagle's rule (RFC 896) keeps it from making another
 * while that one is in flight: so long, rounding up is free, and the guest sends whole segments.
 *
 * A guest that avoids the silly window syndrome as RFC 9293 §3.8.6.2.1 has it never sends a part of
 * a segment because a window ends there: rounded up it uses the whole segments and leaves the rest.
 * Profile `rfc` takes a guest for such a one until a runt of it has filled a window.
 *
 * Linux puts PSH on the last segment of each piece that it cuts, and Linux receivers (6.6 on)
 * acknowledge such a segment at once. A native sender cuts pieces of at most half its window; a
 * guest whose own window is far above f's sends three segments in one piece, and its odd one is
 * not delayed like a neighbour's: worth 15% of the rate at windows of four segments. So a guest
 * that was seen to do this gets a room of three or five, where that is more than half the window,
 * one segment smaller, and the odd one follows with the next ACK.
 */
#ifndef UC_WINDOW_H
#define UC_WINDOW_H

#include "laws/ecn.h"

/* RFC 7323 §2.2: the window of a SYN or SYN-ACK is not scaled. */
#define UC_UNSCALED_MAX 65535
/* Under two segments a Linux guest halves its segment size, and keeps it so. */
#define UC_FIRST_WINDOW_SEGMENTS 2

static __always_inline __u32 uc_units_up(__u32 bytes, __u8 wscale)
{
	return (bytes + (1U << wscale) - 1) >> wscale;
}

/*
 * Does the guest cut its data in pairs (Linux's TSO autosizing on a long path)? Then it uses two
 * segments of a room that is a few bytes short of three, and makes no runt of the third.
 */
static __always_inline void uc_learn_pairs(struct uc_flow *flow, __u32 grain_bytes)
{
	__u32 left_bytes = flow->edge - flow->snd_nxt;

	if (flow->given_window < flow->peer_window && flow->offered_segments == 3 &&
	    left_bytes < flow->mss_bytes && left_bytes + grain_bytes > flow->mss_bytes)
		flow->bits |= UC_FLOW_PAIRS;
}

/* Where the edge should lie, in bytes from snd_una on, before the grain is taken into account; and
 * whether to round up. */
static __always_inline __u32 uc_target_bytes(struct uc_flow *flow, __u32 grain_bytes, __u8 *up)
{
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;
	__u32 law_bytes = uc_law_window_bytes(flow);
	__u32 flight_bytes = uc_flight_bytes(flow);
	__u32 segments = law_bytes > flight_bytes ? (law_bytes - flight_bytes) / mss_bytes : 0;

	uc_learn_pairs(flow, grain_bytes);
	if (flow->policy.profile == UC_PROFILE_RFC && !(flow->bits & UC_FLOW_RUNTS)) {
		*up = 1;
		return flight_bytes + segments * mss_bytes;
	}
	*up = !(flow->bits & UC_FLOW_NODELAY) && uc_after(flow->runt_seq, flow->snd_una);
	if (flow->bits & UC_FLOW_BULK && grain_bytes > 1 && segments > 2 && segments % 2 &&
	    2 * segments > law_bytes / mss_bytes) {
		segments--;
	} else if (!*up && flow->bits & UC_FLOW_PAIRS && segments > 1) {
		/* a pair fits whole into a room a few bytes too large; of an odd segment the pair
		 * before it makes the runt, and it follows with the next ACK */
		*up = segments % 2 == 0;
		segments -= segments % 2;
	}
	flow->offered_segments = segments < 255 ? segments : 255;
	return flight_bytes + segments * mss_bytes;
}

/* The window field for an ACK to the guest whose number is snd_una. */
static __always_inline __u16 uc_window(struct uc_flow *flow, const struct uc_segment *segment)
{
	__u8 wscale = flow->wscale & 15, up;
	__u32 flight_bytes = uc_flight_bytes(flow);
	__u32 bytes = uc_target_bytes(flow, 1U << wscale, &up);
	__u32 field = up ? uc_units_up(bytes, wscale) : bytes >> wscale;

	/* an empty flight must not wait for an ACK that can't come */
	field = uc_max(field, uc_units_up(flight_bytes ? flight_bytes : flow->mss_bytes, wscale));
	return uc_min(field, segment->window);
}

/* The window field of a SYN-ACK to the guest: f's initial window, unscaled. */
static __always_inline __u16 uc_first_window(const struct uc_flow *flow,
					     const struct uc_segment *segment)
{
	__u32 bytes = uc_law_window_bytes(flow) / flow->mss_bytes * flow->mss_bytes;

	bytes = uc_max(bytes, UC_FIRST_WINDOW_SEGMENTS * flow->mss_bytes);
	bytes = uc_min(bytes, UC_UNSCALED_MAX);
	return uc_min(bytes, segment->window);
}

#endif
