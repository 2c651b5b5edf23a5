/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sending host, before the first packet of a flow leaves: whether to probe, and when each probe
 * leaves. The first packet is a SYN of its guest, or the guest's SYN-ACK if the guest is called and
 * sends the data. The packet leaves after the last probe.
 *
 * The span is divided into as many pieces as there are probes. Each probe leaves at a random time
 * in the first seven eighths of its piece, so no two leave at once, gaps are equal only by chance,
 * and the span is kept.
 *
 * The paper probes before every flow. Here a path that was measured a moment ago isn't probed
 * again: it has hardly changed. Then the record at the receiving host takes the place of probes.
 */
#ifndef UC_WATCH_PROBE_H
#define UC_WATCH_PROBE_H

#include "policy.h"

/* Returns how many probes to send; 0: none, the packet passes. The path counts as measured from now
 * on, so that only one of many flows that begin together probes it. */
static __always_inline __u32 uc_watch_probes(const struct uc_watch_policy *policy,
					     struct uc_watch_path *path, __u64 now_ns)
{
	__u32 probes = uc_watch_probe_count(policy);

	if (!probes || uc_watch_is_fresh(policy, path, 1, now_ns))
		return 0;
	/* the answer may be paced; a lost one is awaited no longer than that */
	if (path->asked && uc_since_ns(now_ns, path->measured_ns) < (__u64)policy->wait_us * 1000)
		return 0;
	path->asked = 1;
	path->measured_ns = now_ns | !now_ns;
	/* until the answer arrives */
	path->marked = probes;
	path->unmarked = 0;
	return probes;
}

/* Returns the duration of probing in ns, by which the handshake packet is delayed. The HWatch paper
 * probes for half a round-trip time (span_part 2). In 1/32 of a round-trip time, the usual value,
 * marks show as much of the queue, and probing delays flows less. */
static __always_inline __u32 uc_watch_span_ns(const struct uc_watch_policy *policy,
					      const struct uc_watch_path *path)
{
	__u32 span_us = uc_min(policy->span_us, UC_WATCH_SPAN_MAX_US);
	__u32 part = policy->span_part;

	if (path->rtt_us)
		span_us = uc_min(span_us, path->rtt_us / (part | !part));
	return span_us * 1000;
}

/* Returns when probe `index` of `probes` leaves, in ns from the decision to probe; it rises with
 * the index and is below the span. */
static __always_inline __u32 uc_watch_offset_ns(__u32 span_ns, __u32 probes, __u32 index,
						__u32 random)
{
	__u32 piece_ns = span_ns / (probes | !probes);
	__u64 within_ns = piece_ns - piece_ns / 8;

	return index * piece_ns + (__u32)(within_ns * uc_watch_draw(random, index) >> 32);
}

/*
 * Updates the path's record at the sending host from the answer to the flow's first packet. If the
 * answer is a SYN-ACK, its window is unscaled: the receiving host sets it to one segment for each
 * unmarked probe, and 1/N of a segment for each marked or lost one (N: policy's marked_part).
 * `window_bytes` 0: the answer is an ACK, whose scaled window is too coarse, and only the
 * round-trip time is stored.
 */
static __always_inline void uc_watch_answered(const struct uc_watch_policy *policy,
					      struct uc_watch_path *path, __u32 window_bytes,
					      __u16 mss_bytes, __u64 rtt_ns)
{
	__u32 probes = uc_watch_probe_count(policy);
	/* rounded to the nearest, since options take a part of each segment */
	__u32 segments = (window_bytes + mss_bytes / 2) / (mss_bytes | !mss_bytes);
	__u32 part = uc_watch_marked_part(policy);
	__u64 rtt_us = rtt_ns / 1000;

	path->rtt_us = rtt_us < 1U << 31 ? rtt_us : 1U << 31;
	path->asked = 0;
	if (!window_bytes)
		return;
	path->unmarked = probes;
	path->marked = 0;
	if (segments >= probes)
		return;
	path->marked = uc_min(part * (probes - segments) / (part - 1), probes);
	path->unmarked = probes - path->marked;
}

/* Records an echoed mark (ECE) from this path: the path isn't idle, even if no probe was marked. */
static __always_inline void uc_watch_echoed(struct uc_watch_path *path)
{
	if (!path->marked)
		path->marked = 1;
}

#endif
