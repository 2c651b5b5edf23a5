/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sending host, before the first packet of a flow goes on its way (a SYN of its guest; where
 * the guest is the one that answers and sends the data, its SYN-ACK): whether to probe, and when
 * each probe leaves. The packet goes when the last probe is gone.
 *
 * The span is cut into as many pieces as there are probes, and each leaves at a random moment of
 * the first seven eighths of its piece: so no two leave at once, no two gaps are equal but by
 * chance, and the span holds.
 *
 * The paper probes before every flow. A path that was measured a moment ago has no news, and one
 * that was idle then is most likely idle still: there a flow starts like any other, and its record
 * at the receiving host stands for the probes.
 */
#ifndef UC_WATCH_PROBE_H
#define UC_WATCH_PROBE_H

#include "policy.h"

/* How many probes; 0: let the packet pass. The path counts as measured from now on, so that of many
 * flows that begin together one has it probed. */
static __always_inline __u32 uc_watch_probes(const struct uc_watch_policy *policy,
					     struct uc_watch_path *path, __u64 now_ns)
{
	__u32 probes = uc_watch_probe_count(policy);

	if (!probes || uc_watch_is_fresh(policy, path, 1, now_ns))
		return 0;
	/* the answer may wait for its turn; one that is lost is not waited for longer */
	if (path->asked && uc_since_ns(now_ns, path->measured_ns) < (__u64)policy->wait_us * 1000)
		return 0;
	path->asked = 1;
	path->measured_ns = now_ns | !now_ns;
	/* until the answer tells */
	path->marked = probes;
	path->unmarked = 0;
	return probes;
}

/* How long probing takes: the packet leaves this much later. The paper has it take half of a
 * round-trip time. That is what every flow then pays, and marks show no more of the queue than in a
 * thirty-second of it. */
static __always_inline __u32 uc_watch_span_ns(const struct uc_watch_policy *policy,
					      const struct uc_watch_path *path)
{
	__u32 span_us = uc_min(policy->span_us, UC_WATCH_SPAN_MAX_US);
	__u32 part = policy->span_part;

	if (path->rtt_us)
		span_us = uc_min(span_us, path->rtt_us / (part | !part));
	return span_us * 1000;
}

/* When probe `index` of `probes` leaves, from the moment of the decision on; rises with the index,
 * and is below the span. */
static __always_inline __u32 uc_watch_offset_ns(__u32 span_ns, __u32 probes, __u32 index,
						__u32 random)
{
	__u32 piece_ns = span_ns / (probes | !probes);
	__u64 within_ns = piece_ns - piece_ns / 8;

	return index * piece_ns + (__u32)(within_ns * uc_watch_draw(random, index) >> 32);
}

/*
 * The answer to the flow's first packet has come: what it tells the sending host. The window of a
 * SYN-ACK is not scaled, and is what the receiving host made of the probes: X_UM and a part of X_M.
 * Where the guest answered and the peer's ACK ends the handshake, its scaled window tells too
 * little, and `window_bytes` is 0.
 */
static __always_inline void uc_watch_answered(const struct uc_watch_policy *policy,
					      struct uc_watch_path *path, __u32 window_bytes,
					      __u16 mss_bytes, __u64 rtt_ns)
{
	__u32 probes = uc_watch_probe_count(policy);
	/* to the nearest: options take their part of each segment */
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

/* An echo of a mark from this path (ECE): it is not idle, whatever the probes have found. */
static __always_inline void uc_watch_echoed(struct uc_watch_path *path)
{
	if (!path->marked)
		path->marked = 1;
}

#endif
