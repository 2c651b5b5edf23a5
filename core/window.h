/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * From f's window in bytes to the 16 bits of the header.
 *
 *   room   = whole segments between snd_nxt and una + W, so that the edge ends on a boundary of
 *            the guest's segments: a window that ends inside one makes a runt of it
 *   window = flight + room, never below the flight (nothing sent falls outside), never above the
 *            receiver's, never 0 unless the receiver's is
 *
 * The receiver's scale may be coarser than a segment; then round down: rounding up is a rate too
 * high, by half at a scale of 10 and windows of four segments.
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

/* The window field for an ACK to the guest whose number is snd_una. */
static __always_inline __u16 uc_window(const struct uc_flow *flow, const struct uc_segment *segment)
{
	__u8 wscale = flow->wscale & 15;
	__u32 mss_bytes = flow->mss_bytes | !flow->mss_bytes;
	__u32 law_bytes = uc_law_window_bytes(flow);
	__u32 flight_bytes = uc_flight_bytes(flow);
	__u32 room_bytes = 0, field;

	if (law_bytes > flight_bytes)
		room_bytes = (law_bytes - flight_bytes) / mss_bytes * mss_bytes;
	field = (flight_bytes + room_bytes) >> wscale;
	/* an empty flight must not wait for an ACK that can't come */
	field = uc_max(field, uc_units_up(flight_bytes ? flight_bytes : mss_bytes, wscale));
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
