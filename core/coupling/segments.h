/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * An answer in whole segments, for platforms whose TCP sends only those. Of a window of 9.5
 * segments such a TCP uses 9. If a guest of weight 1 has three flows and another one flow of weight
 * 3, the three flows lose 1.5 segments by that and the one flow 0.5: a few per cent of their
 * windows. So the window is 9 segments in one round trip and 10 in the next, rounded such that its
 * mean is the answer.
 */
#ifndef UC_COUPLING_SEGMENTS_H
#define UC_COUPLING_SEGMENTS_H

#include "interface.h"

/* What a platform stores of a flow in addition to its state. All zero: nothing is owed. */
struct uc_ccc_segments {
	__u32 acked_bytes; /* in this round trip, which ends when a window is acknowledged */
	__u16 owed_bytes;  /* part of a segment that earlier round trips were short of */
	__u8 up;           /* 1: in this round trip a part of a segment is rounded up */
	__u8 pad;
};

/*
 * Returns an answer's `cwnd_bytes` in whole segments (bytes, at least one segment). `acked_bytes`
 * is that of the report. The platform subtracts the difference to the answer from the cwnd that it
 * reports next.
 */
static __always_inline __u32 uc_ccc_whole(struct uc_ccc_segments *segments, __u32 cwnd_bytes,
					  __u32 acked_bytes, __u16 mss_bytes)
{
	__u32 mss = uc_max64(mss_bytes, UC_MSS_MIN_BYTES);
	__u32 part_bytes = cwnd_bytes % mss, floor_bytes = cwnd_bytes - part_bytes, whole_bytes;

	whole_bytes = floor_bytes + (part_bytes && segments->up ? mss : 0);
	/* each at most 2^30, so the sum doesn't overflow */
	acked_bytes = uc_min64(acked_bytes, UC_CCC_WINDOW_MAX_BYTES);
	segments->acked_bytes =
		acked_bytes + uc_min64(segments->acked_bytes, UC_CCC_WINDOW_MAX_BYTES);
	if (segments->acked_bytes >= whole_bytes) {
		/* modulo, since the segment size may have become smaller */
		part_bytes += segments->owed_bytes % mss;
		segments->up = part_bytes >= mss;
		segments->owed_bytes = part_bytes % mss;
		segments->acked_bytes %= whole_bytes | !whole_bytes;
		whole_bytes = floor_bytes + (segments->up ? mss : 0);
	}
	return uc_max64(whole_bytes, mss);
}

#endif
