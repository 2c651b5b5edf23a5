/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Turns: how long the packet with a flow's first window (SYN-ACK, or the handshake's ACK) waits at
 * the receiving host, so that first windows aren't given faster than the host can take the data.
 * One bucket for each host's own link, or port.
 *
 * A token bucket as one moment (the generic cell rate algorithm): `turn_ns` is when everything
 * given so far would have arrived at the bucket's rate. A window may be given as long as that lies
 * no more than a burst ahead. Nobody waits longer than policy says: what is given then is given
 * early, and leaves no debt behind.
 */
#ifndef UC_WATCH_BUCKET_H
#define UC_WATCH_BUCKET_H

#include "policy.h"

struct uc_watch_bucket {
	__u64 turn_ns;
};

static __always_inline __u64 uc_watch_cost_ns(const struct uc_watch_policy *policy, __u32 bytes)
{
	return (__u64)bytes * 1000000000ULL / policy->pace_bytes_per_s;
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
