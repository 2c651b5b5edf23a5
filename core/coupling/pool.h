/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A sum over the members of a group or guest that needs no loop over them.
 *
 * A member counts while it reports. Time is divided into epochs. `heard` is the sum over members
 * that have reported in this epoch; `counted` also includes those that reported in the epoch before
 * and haven't reported again yet. When an epoch ends, `heard` becomes `counted` and starts at zero.
 * So a member that is silent for an epoch drops out without a list or a timer, and a sum that
 * became wrong for any reason is right again two epochs later.
 */
#ifndef UC_COUPLING_POOL_H
#define UC_COUPLING_POOL_H

#include "interface.h"

struct uc_ccc_amounts {
	__u64 weight; /* present weight in the division of the window */
	__u64 claim;  /* full weight: `weight` while none of it is released */
	__u64 flight_bytes;
	__u64 used_bytes;
	__u32 priority;
	__u32 flows;
	__u32 hungry; /* flows that are limited by the window */
	__u32 hungry_guests;
	__u32 stalled; /* flows after a timeout */
	__u32 pad;
};

struct uc_ccc_pool {
	struct uc_ccc_amounts counted;
	struct uc_ccc_amounts heard;
	__u64 epoch;
};

/* One member's contribution to the pool. All zero: none. */
struct uc_ccc_stake {
	struct uc_ccc_amounts held;
	__u64 epoch; /* the epoch of the member's last report */
};

static __always_inline void uc_ccc_add(struct uc_ccc_amounts *sum,
				       const struct uc_ccc_amounts *more)
{
	sum->weight += more->weight;
	sum->claim += more->claim;
	sum->flight_bytes += more->flight_bytes;
	sum->used_bytes += more->used_bytes;
	sum->priority += more->priority;
	sum->flows += more->flows;
	sum->hungry += more->hungry;
	sum->hungry_guests += more->hungry_guests;
	sum->stalled += more->stalled;
}

/* Returns the difference, or 0 if it would be negative. */
static __always_inline __u64 uc_ccc_less(__u64 from, __u64 what)
{
	return from > what ? from - what : 0;
}

static __always_inline void uc_ccc_take(struct uc_ccc_amounts *sum,
					const struct uc_ccc_amounts *less)
{
	/* never below 0: a damaged sum must not wrap to an enormous one */
	sum->weight = uc_ccc_less(sum->weight, less->weight);
	sum->claim = uc_ccc_less(sum->claim, less->claim);
	sum->flight_bytes = uc_ccc_less(sum->flight_bytes, less->flight_bytes);
	sum->used_bytes = uc_ccc_less(sum->used_bytes, less->used_bytes);
	sum->priority = uc_ccc_less(sum->priority, less->priority);
	sum->flows = uc_ccc_less(sum->flows, less->flows);
	sum->hungry = uc_ccc_less(sum->hungry, less->hungry);
	sum->hungry_guests = uc_ccc_less(sum->hungry_guests, less->hungry_guests);
	sum->stalled = uc_ccc_less(sum->stalled, less->stalled);
}

/* Moves the pool to the present epoch; to be called before any other use of it. */
static __always_inline void uc_ccc_turn(struct uc_ccc_pool *pool, __u64 epoch)
{
	const struct uc_ccc_amounts nothing = {};

	if (pool->epoch == epoch)
		return;
	pool->counted = pool->epoch + 1 == epoch ? pool->heard : nothing;
	pool->heard = nothing;
	pool->epoch = epoch;
}

/* Returns whether the member has reported in this epoch or the one before. */
static __always_inline __u8 uc_ccc_is_counted(const struct uc_ccc_pool *pool,
					      const struct uc_ccc_stake *stake)
{
	return stake->epoch == pool->epoch || stake->epoch + 1 == pool->epoch;
}

/* Removes the member's contribution from the pool. */
static __always_inline void uc_ccc_withdraw(struct uc_ccc_pool *pool, struct uc_ccc_stake *stake)
{
	if (stake->epoch == pool->epoch)
		uc_ccc_take(&pool->heard, &stake->held);
	if (uc_ccc_is_counted(pool, stake))
		uc_ccc_take(&pool->counted, &stake->held);
	stake->epoch = 0;
}

/* Replaces the member's contribution by `amounts`, last reported in `epoch`: the present epoch or
 * the one before. */
static __always_inline void uc_ccc_enter(struct uc_ccc_pool *pool, struct uc_ccc_stake *stake,
					 const struct uc_ccc_amounts *amounts, __u64 epoch)
{
	uc_ccc_withdraw(pool, stake);
	stake->held = *amounts;
	stake->epoch = epoch;
	if (epoch == pool->epoch)
		uc_ccc_add(&pool->heard, &stake->held);
	uc_ccc_add(&pool->counted, &stake->held);
}

/* Returns whole · weight ÷ weights, rounded down. `whole` must be below 2^31 and `weight` below
 * 2^32, or the product overflows. */
static __always_inline __u64 uc_ccc_part(__u64 whole, __u64 weight, __u64 weights)
{
	weights = uc_max64(weights, weight);
	return whole * weight / (weights | !weights);
}

#endif
