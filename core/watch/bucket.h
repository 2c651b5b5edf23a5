/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Turns: how long the first packet of the guest (SYN-ACK, or SYN) waits at the receiving host, so
 * that first windows aren't given faster than the host can take the data. One bucket for each
 * host's own link, or port.
 *
 * A token bucket as one moment (the generic cell rate algorithm): `turn_ns` is when everything
 * given so far would have arrived at the bucket's rate. A window may be given as long as that lies
 * no more than a burst ahead. Nobody waits longer than policy says: what is given then is given
 * early, and leaves no debt behind. A flow is charged by what flows of its path use; what it uses
 * in fact corrects that.
 *
 * A home that tells it what arrives (uc_watch_heard) also knows whether it is this link that is
 * full. Then marks tell of this link's queue, into which all that starts comes in turns.
 *
 * A crowd, more at once than a burst, takes a part of a link that is full of flows past their
 * start: those give way only when marks have come back to them, and the least that they can send
 * takes room for good. So there is a second moment that runs ahead faster. It falls back to the
 * first where nobody waits: flows that come one by one take what they need, since those past their
 * start leave it to them in time. Even at nine tenths of a link these wait for one another now and
 * then; to charge them for the others would keep the others where they are, and all would be late.
 * They are told from a crowd by a third moment, at a rate that is above any that lasts.
 */
#ifndef UC_WATCH_BUCKET_H
#define UC_WATCH_BUCKET_H

#include "policy.h"

struct uc_watch_bucket {
	__u64 turn_ns;           /* when all that was given would have arrived */
	__u64 crowd_ns;          /* the same, with room for flows past their start */
	__u64 rush_ns;           /* the same, at one and a half of the rate */
	__u64 period_ns;         /* since when arrivals are counted */
	__u32 bytes;             /* that have arrived in this period */
	__u32 last_bytes;        /* in the one before, which was as long as a burst takes */
	__u32 steady_bytes;      /* of flows past their start, among the bytes */
	__u32 last_steady_bytes; /* among the last bytes */
};

static __always_inline __u64 uc_watch_cost_ns(const struct uc_watch_policy *policy, __u32 bytes)
{
	return (__u64)bytes * 1000000000ULL / policy->pace_bytes_per_s;
}

/* `bytes` have come to the link's host, of whatever flow; `steady`: of one that is past its start,
 * or never had one. To be told in the order of time. */
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

/* Are the counts of the last periods still true, and at least this part of what the rate lets in?
 */
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

/* Is it this link that marks come from? Half of its rate makes no queue, but what comes at random
 * does for a moment: a quarter in the last period tells. */
static __always_inline __u8 uc_watch_is_full(const struct uc_watch_bucket *bucket,
					     const struct uc_watch_policy *policy, __u64 now_ns)
{
	return uc_watch_is_part(bucket, policy, bucket->bytes, bucket->last_bytes, 4, now_ns);
}

/* Do flows past their start take the link? Half of it: policy's rate may be above the link's, where
 * those give way early. */
static __always_inline __u8 uc_watch_is_taken(const struct uc_watch_bucket *bucket,
					      const struct uc_watch_policy *policy, __u64 now_ns)
{
	return uc_watch_is_part(bucket, policy, bucket->steady_bytes, bucket->last_steady_bytes, 2,
				now_ns);
}

/* Where flows past their start take the link they keep so many parts of it, and a crowd gets so
 * many. A third would be too little for them: the least that 50 can send, two segments each, takes
 * room for good, and a crowd's first windows would fill what is left of a switch's buffer. */
#define UC_WATCH_STEADY_PARTS 3
#define UC_WATCH_CROWD_PARTS  4

/*
 * A crowd that is too long to wait for in its part of the link: who comes when that part of all the
 * time that anyone waits is given away has the part of the others, from now on, and the crowd the
 * whole link. They have had the time to give way that long crowds have; otherwise all that are left
 * would start at once when they have waited as long as they may. `ahead_ns`: what was given, at
 * the whole rate.
 */
static __always_inline __u64 uc_watch_rest_ns(__u64 ahead_ns, __u64 most_ns)
{
	__u64 whole_ns = (UC_WATCH_CROWD_PARTS + UC_WATCH_STEADY_PARTS) * ahead_ns;
	__u64 given_ns = UC_WATCH_CROWD_PARTS * most_ns;

	return whole_ns > given_ns ? (whole_ns - given_ns) / UC_WATCH_STEADY_PARTS : 0;
}

/* How far a moment lies ahead, at most this far: beyond that it is of a clock that went back, or of
 * another host's bucket. */
static __always_inline __u64 uc_watch_ahead_ns(__u64 moment_ns, __u64 most_ns, __u64 now_ns)
{
	if (moment_ns <= now_ns)
		return 0;
	return moment_ns - now_ns < most_ns ? moment_ns - now_ns : most_ns;
}

/* Has more been granted at once than a burst, at a rate of which the link takes two thirds? */
static __always_inline __u8 uc_watch_is_rush(struct uc_watch_bucket *bucket, __u64 cost_ns,
					     __u64 burst_ns, __u64 most_ns, __u64 now_ns)
{
	__u64 ahead_ns = uc_watch_ahead_ns(bucket->rush_ns, most_ns, now_ns);

	bucket->rush_ns = now_ns + ahead_ns + cost_ns * 2 / 3;
	return ahead_ns > burst_ns * 2 / 3;
}

/* How long the packet waits that gives `grant_bytes`. To be asked once for each flow. */
static __always_inline __u64 uc_watch_wait_ns(struct uc_watch_bucket *bucket,
					      const struct uc_watch_policy *policy,
					      __u32 grant_bytes, __u64 now_ns)
{
	__u64 longest_ns = uc_min(policy->wait_us, UC_WATCH_WAIT_MAX_US) * 1000ULL;
	__u64 burst_ns, cost_ns, most_ns, ahead_ns, crowd_ns, wait_ns;
	__u8 crowd, rush;

	if (!policy->pace_bytes_per_s || !grant_bytes || policy->observe)
		return 0;
	burst_ns = uc_watch_cost_ns(policy, policy->burst_bytes);
	cost_ns = uc_watch_cost_ns(policy, grant_bytes);
	most_ns = longest_ns + burst_ns; /* no turn is further ahead when anyone asks */
	ahead_ns = uc_watch_ahead_ns(bucket->turn_ns, most_ns, now_ns);
	crowd = ahead_ns > burst_ns;
	rush = uc_watch_is_rush(bucket, cost_ns, burst_ns, most_ns, now_ns);
	crowd_ns = crowd ? uc_watch_ahead_ns(bucket->crowd_ns, most_ns, now_ns) : 0;
	if (crowd_ns < ahead_ns)
		crowd_ns = ahead_ns;
	wait_ns = crowd_ns > burst_ns ? crowd_ns - burst_ns : 0;
	if (crowd && crowd_ns == most_ns)
		wait_ns = uc_watch_rest_ns(ahead_ns, most_ns);
	if (crowd && rush && uc_watch_is_taken(bucket, policy, now_ns))
		crowd_ns += cost_ns * UC_WATCH_STEADY_PARTS / UC_WATCH_CROWD_PARTS;
	bucket->turn_ns = now_ns + ahead_ns + cost_ns;
	bucket->crowd_ns = now_ns + crowd_ns + cost_ns;
	return wait_ns < longest_ns ? wait_ns : longest_ns;
}

/* A flow has used so many bytes more than it was charged for, or less. */
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
