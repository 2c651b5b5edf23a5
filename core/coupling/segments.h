/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * An answer in whole segments, for homes whose TCP sends nothing less. Of a window of 9.5 segments
 * it uses 9; and where a guest of weight 1 has three flows beside one flow of weight 3, the three
 * lose a segment and a half of it and the one a half, which is a few per cent of what they had. So
 * such a window is 9 segments in one round trip and 10 in the next: rounded by what earlier ones
 * owe, the mean is the answer.
 *
 * Beside the flow's state, in the home. All zero: a flow that is owed nothing.
 */
#ifndef UC_COUPLING_SEGMENTS_H
#define UC_COUPLING_SEGMENTS_H

#include "interface.h"

struct uc_ccc_segments {
	__u32 acked_bytes; /* in this round trip, which is over when a window is acknowledged */
	__u16 owed_bytes;  /* of a segment, from the round trips before */
	__u8 up;           /* in this one, a part of a segment counts as a whole one */
	__u8 pad;
};

/*
 * `cwnd_bytes` of the answer in bytes of whole segments, at least one; `acked_bytes` as in the
 * report that it answers. What it is more or less than the answer is for the home to take off the
 * cwnd that it reports next.
 */
static __always_inline __u32 uc_ccc_whole(struct uc_ccc_segments *segments, __u32 cwnd_bytes,
					  __u32 acked_bytes, __u16 mss_bytes)
{
	__u32 mss = uc_max64(mss_bytes, UC_MSS_MIN_BYTES);
	__u32 part_bytes = cwnd_bytes % mss, floor_bytes = cwnd_bytes - part_bytes, whole_bytes;

	whole_bytes = floor_bytes + (part_bytes && segments->up ? mss : 0);
	/* below both, each at most 2^30 */
	acked_bytes = uc_min64(acked_bytes, UC_CCC_WINDOW_MAX_BYTES);
	segments->acked_bytes =
		acked_bytes + uc_min64(segments->acked_bytes, UC_CCC_WINDOW_MAX_BYTES);
	if (segments->acked_bytes >= whole_bytes) {
		/* the segment size may have become less since */
		part_bytes += segments->owed_bytes % mss;
		segments->up = part_bytes >= mss;
		segments->owed_bytes = part_bytes % mss;
		segments->acked_bytes %= whole_bytes | !whole_bytes;
		whole_bytes = floor_bytes + (segments->up ? mss : 0);
	}
	return uc_max64(whole_bytes, mss);
}

#endif
