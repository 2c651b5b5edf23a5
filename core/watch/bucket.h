/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Turns: how long the first packet of the guest (SYN-ACK, or SYN) waits at the receiving host, so
 * that first windows aren't given faster than the host can take the data. One bucket for each
 * host's own link, or port.
 *
 * A token bucket as one moment (the generic cell rate algorithm): `turn_ns` is when everything
 * given so far would have arrived at the bucket's rate. A window may be given as long as that lies
 * no more than a burst ahead. Nobody waits longer than policy says: what is given then is given
 * early, and leaves no debt behind.
 *
 * A home that tells it what arrives (uc_watch_heard) also knows whether it is this link that is
 * full. Then marks tell of this link's queue, into which all that starts comes in turns.
 */
#ifndef UC_WATCH_BUCKET_H
#define UC_WATCH_BUCKET_H

#include "policy.h"

struct uc_watch_bucket {
	__u64 turn_ns;
	__u64 period_ns;  /* since when arrivals are counted */
	__u32 bytes;      /* that have arrived in this period */
	__u32 last_bytes; /* in the one before, which was as long as a burst takes */
};

static __always_inline __u64 uc_watch_cost_ns(const struct uc_watch_policy *policy, __u32 bytes)
{
	return (__u64)bytes * 1000000000ULL / policy->pace_bytes_per_s;
}

/* `bytes` have come to the link's host, of whatever flow; to be told in the order of time. */
static __always_inline void uc_watch_heard(struct uc_watch_bucket *bucket,
					   const struct uc_watch_policy *policy, __u32 bytes,
					   __u64 now_ns)
{
	__u64 length_ns, age_ns = now_ns - bucket->period_ns;

	if (!policy->pace_bytes_per_s)
		return;
	length_ns = uc_watch_cost_ns(policy, policy->burst_bytes);
	if (age_ns >= length_ns) {
		bucket->last_bytes = age_ns < 2 * length_ns ? bucket->bytes : 0;
		bucket->bytes = 0;
		bucket->period_ns = now_ns;
	}
	bucket->bytes += bytes;
}

/* Has the link been full in the last period, or a good part of it? */
static __always_inline __u8 uc_watch_is_full(const struct uc_watch_bucket *bucket,
					     const struct uc_watch_policy *policy, __u64 now_ns)
{
	__u32 most_bytes = uc_watch_max(bucket->bytes, bucket->last_bytes);

	if (!policy->pace_bytes_per_s || !policy->burst_bytes)
		return 0;
	if (now_ns - bucket->period_ns >= 2 * uc_watch_cost_ns(policy, policy->burst_bytes))
		return 0;
	/* half: policy's rate may be above the link's, where the flows on it give way early */
	return most_bytes >= policy->burst_bytes / 2;
}

/* How long the packet waits that gives `grant_bytes`. To be asked once for each flow. */
static __always_inline __u64 uc_watch_wait_ns(struct uc_watch_bucket *bucket,
					      const struct uc_watch_policy *policy,
					      __u32 grant_bytes, __u64 now_ns)
{
	__u64 most_ns = uc_watch_min(policy->wait_us, UC_WATCH_WAIT_MAX_US) * 1000ULL;
	__u64 burst_ns, turn_ns, wait_ns;

	if (!policy->pace_bytes_per_s || !grant_bytes || policy->observe)
		return 0;
	burst_ns = uc_watch_cost_ns(policy, policy->burst_bytes);
	turn_ns = bucket->turn_ns > now_ns ? bucket->turn_ns : now_ns;
	wait_ns = turn_ns - now_ns > burst_ns ? turn_ns - now_ns - burst_ns : 0;
	/* a clock that went back, or another host's bucket: as if nothing were owed */
	if (turn_ns - now_ns > burst_ns + most_ns) {
		turn_ns = now_ns + burst_ns + most_ns;
		wait_ns = most_ns;
	}
	bucket->turn_ns = turn_ns + uc_watch_cost_ns(policy, grant_bytes);
	return wait_ns;
}

#endif
