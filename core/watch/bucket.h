/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Pacing of flow starts: how long the guest's first packet (SYN-ACK, or SYN) waits at the receiving
 * host, so that first windows aren't granted faster than the host's link can carry the data. Each
 * link, or port, has one bucket.
 *
 * The bucket is a token bucket stored as a time (the generic cell rate algorithm): at `turn_ns` all
 * windows granted so far would have arrived at the bucket's rate. A window is granted at once if
 * that time is at most a burst ahead of now; otherwise the packet waits. No packet waits longer
 * than policy's limit: then its window is granted early, and later flows don't pay for it. A flow
 * is charged what flows of its path use on average, and the charge is corrected by what it uses
 * itself.
 *
 * If the platform reports what arrives (uc_watch_heard), the bucket also knows whether this link is
 * full. Then marks come from this link's queue, which paced starts don't overfill.
 *
 * A burst of flow starts (`crowd`: more at once than a burst of bytes) gets only a part of a link
 * that is full of flows past their start. Those flows slow down only when marks have come back to
 * them, and even their minimum windows take room. So a second time, `crowd_ns`, runs ahead faster
 * than `turn_ns`. It falls back to `turn_ns` when no packet waits: flows that come one by one get
 * what they need, because the others slow down in time. At a load of nine tenths single flows wait
 * for each other now and then; if they were charged for the other flows, too, those would never
 * slow down, and all would be late. A third time, `rush_ns`, runs at a rate higher than any that
 * lasts; it tells single flows from a burst of flow starts.
 */
#ifndef UC_WATCH_BUCKET_H
#define UC_WATCH_BUCKET_H

#include "policy.h"

struct uc_watch_bucket {
	__u64 turn_ns;           /* when all granted windows would have arrived */
	__u64 crowd_ns;          /* the same, if flows past their start get their part of the link
				  * as well */
	__u64 rush_ns;           /* the same as turn_ns, at 1.5 times the rate */
	__u64 period_ns;         /* begin of this period of counting; 0: no arrival yet */
	__u32 bytes;             /* arrived in this period */
	__u32 last_bytes;        /* arrived in the period before; a period lasts as long as a burst
				  * at policy's rate */
	__u32 steady_bytes;      /* of `bytes`, those of flows past their start */
	__u32 last_steady_bytes; /* of `last_bytes`, those of flows past their start */
};

/* Returns how long `bytes` take at policy's rate. */
static __always_inline __u64 uc_watch_cost_ns(const struct uc_watch_policy *policy, __u32 bytes)
{
	return (__u64)bytes * 1000000000ULL / policy->pace_bytes_per_s;
}

/* Counts `bytes` of any flow that have arrived at the link's host. `steady`: the flow is past its
 * start, or had none. To be called in the order of time. */
static __always_inline void uc_watch_heard(struct uc_watch_bucket *bucket,
					   const struct uc_watch_policy *policy, __u32 bytes,
					   __u8 steady, __u64 now_ns)
{
	__u64 length_ns, age_ns = uc_since_ns(now_ns, bucket->period_ns);
	__u8 next;

	if (!policy->pace_bytes_per_s)
		return;
	length_ns = uc_watch_cost_ns(policy, policy->burst_bytes);
	if (age_ns >= length_ns) {
		next = age_ns < 2 * length_ns;
		bucket->last_bytes = next ? bucket->bytes : 0;
		bucket->last_steady_bytes = next ? bucket->steady_bytes : 0;
		bucket->bytes = 0;
		bucket->steady_bytes = 0;
		bucket->period_ns = now_ns;
	}
	bucket->bytes += bytes;
	if (steady)
		bucket->steady_bytes += bytes;
}

/* Returns whether the counts are recent and show at least 1/part of policy's rate. */
static __always_inline __u8 uc_watch_is_part(const struct uc_watch_bucket *bucket,
					     const struct uc_watch_policy *policy, __u32 bytes,
					     __u32 last_bytes, __u32 part, __u64 now_ns)
{
	if (!policy->pace_bytes_per_s || !policy->burst_bytes)
		return 0;
	if (uc_since_ns(now_ns, bucket->period_ns) >=
	    2 * uc_watch_cost_ns(policy, policy->burst_bytes))
		return 0;
	return uc_max(bytes, last_bytes) >= policy->burst_bytes / part;
}

/* Returns whether marks may come from this link: recent arrivals reach a quarter of policy's rate.
 * At half its rate a link has no lasting queue, but random arrivals make short ones. */
static __always_inline __u8 uc_watch_is_full(const struct uc_watch_bucket *bucket,
					     const struct uc_watch_policy *policy, __u64 now_ns)
{
	return uc_watch_is_part(bucket, policy, bucket->bytes, bucket->last_bytes, 4, now_ns);
}

/* Returns whether flows past their start use at least half of policy's rate. The limit is not
 * higher, because policy's rate may be higher than the link's, and then these flows slow down
 * before they reach more. */
static __always_inline __u8 uc_watch_is_taken(const struct uc_watch_bucket *bucket,
					      const struct uc_watch_policy *policy, __u64 now_ns)
{
	return uc_watch_is_part(bucket, policy, bucket->steady_bytes, bucket->last_steady_bytes, 2,
				now_ns);
}

/* How a full link is divided: flows past their start keep 3 parts of 7, a burst of flow starts gets
 * 4. A third would be too little for the former: 50 of them send at least two segments each all the
 * time, and the first windows would fill the rest of a switch's buffer. */
#define UC_WATCH_STEADY_PARTS 3
#define UC_WATCH_CROWD_PARTS  4

/*
 * Returns how long a flow waits whose burst of flow starts is too long for its part of the link
 * within policy's longest wait. Once that part is granted, later flows get the part of the flows
 * past their start as well, so the burst has the whole link. By then those flows have had time to
 * slow down. Without this rule all remaining flows would start at once when their longest wait is
 * over. `ahead_ns`: how long the granted windows take at the whole rate.
 */
static __always_inline __u64 uc_watch_rest_ns(__u64 ahead_ns, __u64 most_ns)
{
	__u64 whole_ns = (UC_WATCH_CROWD_PARTS + UC_WATCH_STEADY_PARTS) * ahead_ns;
	__u64 given_ns = UC_WATCH_CROWD_PARTS * most_ns;

	return whole_ns > given_ns ? (whole_ns - given_ns) / UC_WATCH_STEADY_PARTS : 0;
}

/* Returns how far a time lies ahead of now, 0 to `most_ns`. One further ahead comes from a clock
 * that was set back, or from another host's bucket. */
static __always_inline __u64 uc_watch_ahead_ns(__u64 moment_ns, __u64 most_ns, __u64 now_ns)
{
	if (moment_ns <= now_ns)
		return 0;
	return moment_ns - now_ns < most_ns ? moment_ns - now_ns : most_ns;
}

/* Charges `rush_ns`, and returns whether more than a burst was granted at 1.5 times the rate. */
static __always_inline __u8 uc_watch_is_rush(struct uc_watch_bucket *bucket, __u64 cost_ns,
					     __u64 burst_ns, __u64 most_ns, __u64 now_ns)
{
	__u64 ahead_ns = uc_watch_ahead_ns(bucket->rush_ns, most_ns, now_ns);

	bucket->rush_ns = now_ns + ahead_ns + cost_ns * 2 / 3;
	return ahead_ns > burst_ns * 2 / 3;
}

/* Returns how long (ns) the packet waits that grants a first window of `grant_bytes`, and charges
 * the bucket. `taken`: whether flows past their start use the link. To be called once for each
 * flow. */
static __always_inline __u64 uc_watch_turn_ns(struct uc_watch_bucket *bucket,
					      const struct uc_watch_policy *policy,
					      __u32 grant_bytes, __u8 taken, __u64 now_ns)
{
	__u64 longest_ns = uc_min(policy->wait_us, UC_WATCH_WAIT_MAX_US) * 1000ULL;
	__u64 burst_ns, cost_ns, most_ns, ahead_ns, crowd_ns, wait_ns;
	__u8 crowd, rush;

	if (!policy->pace_bytes_per_s || !grant_bytes || policy->observe)
		return 0;
	burst_ns = uc_watch_cost_ns(policy, policy->burst_bytes);
	cost_ns = uc_watch_cost_ns(policy, grant_bytes);
	most_ns = longest_ns + burst_ns; /* the furthest that a time can lie ahead */
	ahead_ns = uc_watch_ahead_ns(bucket->turn_ns, most_ns, now_ns);
	crowd = ahead_ns > burst_ns;
	rush = uc_watch_is_rush(bucket, cost_ns, burst_ns, most_ns, now_ns);
	crowd_ns = crowd ? uc_watch_ahead_ns(bucket->crowd_ns, most_ns, now_ns) : 0;
	if (crowd_ns < ahead_ns)
		crowd_ns = ahead_ns;
	wait_ns = crowd_ns > burst_ns ? crowd_ns - burst_ns : 0;
	if (crowd && crowd_ns == most_ns)
		wait_ns = uc_watch_rest_ns(ahead_ns, most_ns);
	if (crowd && rush && taken)
		crowd_ns += cost_ns * UC_WATCH_STEADY_PARTS / UC_WATCH_CROWD_PARTS;
	bucket->turn_ns = now_ns + ahead_ns + cost_ns;
	bucket->crowd_ns = now_ns + crowd_ns + cost_ns;
	return wait_ns < longest_ns ? wait_ns : longest_ns;
}

/* Returns how long (ns) the packet waits that grants a first window of `grant_bytes`, and charges
 * the bucket, at a link whose arrivals the platform reports (uc_watch_heard()). */
static __always_inline __u64 uc_watch_wait_ns(struct uc_watch_bucket *bucket,
					      const struct uc_watch_policy *policy,
					      __u32 grant_bytes, __u64 now_ns)
{
	__u8 taken = uc_watch_is_taken(bucket, policy, now_ns);

	return uc_watch_turn_ns(bucket, policy, grant_bytes, taken, now_ns);
}

/* Corrects the charge of a flow that has used `bytes` more than it was charged for, or fewer
 * (negative). */
static __always_inline void uc_watch_settle(struct uc_watch_bucket *bucket,
					    const struct uc_watch_policy *policy, __s32 bytes)
{
	__u64 cost_ns;

	if (!policy->pace_bytes_per_s || !bytes || policy->observe)
		return;
	cost_ns = uc_watch_cost_ns(policy, bytes < 0 ? 0U - (__u32)bytes : (__u32)bytes);
	if (bytes > 0) {
		bucket->turn_ns += cost_ns;
		bucket->crowd_ns += cost_ns;
	} else {
		bucket->turn_ns -= bucket->turn_ns > cost_ns ? cost_ns : bucket->turn_ns;
		bucket->crowd_ns -= bucket->crowd_ns > cost_ns ? cost_ns : bucket->crowd_ns;
	}
}

#endif
