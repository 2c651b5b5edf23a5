/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group: the flows that share a bottleneck, as policy defines it (a pair of hosts, a prefix, a
 * tenant). Its window is divided twice, first among guests by their weights, then among the flows
 * of each guest by their priorities. If it were divided among flows at once, a guest with four
 * flows would have four fifths of it and a guest with one flow one fifth, which coupling is to
 * prevent.
 *
 * A platform stores the three structs wherever it likes; none points to another. The group's lock,
 * if the platform has one, covers the group, its guests and its flows.
 */
#ifndef UC_COUPLING_GROUP_H
#define UC_COUPLING_GROUP_H

#include "pool.h"

enum uc_ccc_shares {
	UC_CCC_BY_WINDOW, /* windows in proportion: of two flows the nearer has the higher rate */
	UC_CCC_BY_RATE,   /* windows in proportion to the round-trip time too: equal rates */
};

enum uc_ccc_size {
	UC_CCC_SIZE_FLOWS,
	UC_CCC_SIZE_GUESTS,
	UC_CCC_SIZE_LAWS, /* flows, each of which answers its own losses: sum.h */
};

/* How a group behaves. All zero is valid: it acts as one TCP, and shares are windows. */
struct uc_ccc_policy {
	/*
	 * A group of n acts as a = 1 + this · (n − 1) TCPs; unit 1/2^16. 0: as one TCP (E-TCP, the
	 * draft); 65536: as n TCPs (MulTCP, EFCM).
	 */
	__u32 aggressiveness_q16;
	__u32 silence_us;       /* the least length of an epoch; 0: 200 ms */
	__u32 window_max_bytes; /* maximum window of the whole group; 0: 2^30 */
	__u16 burst_segments;   /* what a flow may send at once though other flows' packets still
				 * fill its share; 0: 2, for which no delayed ACK waits; 65535: all
				 * of its share */
	__u8 shares;            /* enum uc_ccc_shares */
	__u8 size;              /* enum uc_ccc_size: whether n counts the window-limited flows or
				 * their guests */
};

struct uc_ccc {
	struct uc_ccc_pool guests;
	__u64 window_q16; /* bytes; the sum of all shares */
	__u64 began_ns;   /* when this epoch began */
	__u64 cut_ns;     /* time of the last reaction to a loss event; 0: none yet */
	__u32 ssthresh_bytes;
	__u32 srtt_max_us;  /* longest smoothed round-trip time in this epoch, ×8 */
	__u32 srtt_was_us;  /* the same in the epoch before */
	__u32 cuts;         /* number of loss events that the group has answered */
	__u32 spare_q16;    /* of the TCPs that the group acts as: how many (× 2^16) haven't
			     * answered the last loss event */
	__u32 before_bytes; /* the group's window before the last loss event */
	struct uc_ccc_policy policy;
};

struct uc_ccc_guest {
	struct uc_ccc_pool flows;
	struct uc_ccc_stake stake;
	__u32 weight; /* 1 to 255, may be changed at any time; 0 is 1 */
	__u32 pad;
};

struct uc_ccc_flow {
	struct uc_ccc_stake stake;
	__u32 given_bytes; /* window of the last answer */
	__u32 given_ssthresh_bytes;
	__u16 mss_bytes;
	__u8 priority; /* 0: not registered */
	__u8 state;    /* enum uc_ccc_state, as reported last */
	__u32 pad;
};

_Static_assert(sizeof(struct uc_ccc_flow) <= 128,
	       "a coupled flow must stay within two cache lines");
_Static_assert(sizeof(struct uc_ccc_guest) <= 256, "a coupled guest: four cache lines");
_Static_assert(sizeof(struct uc_ccc) <= 256, "a group: four cache lines");

#define UC_CCC_SILENCE_US     200000U
#define UC_CCC_BURST_SEGMENTS 2U
#define UC_CCC_WEIGHT_MAX     255U
#define UC_CCC_UNIT           (1U << 16) /* weight of priority 1 where shares are windows */
#define UC_CCC_SRTT_GUESS_US  (1U << 13) /* ×8, a millisecond, before anybody has measured */
#define UC_CCC_RELEASED_SHIFT 6          /* what an idle member keeps: a 64th of its weight */

/* Initializes a new group. Guests and flows of an older group in the same place stop counting. */
static __always_inline void uc_ccc_open(struct uc_ccc *ccc, const struct uc_ccc_policy *policy,
					__u64 now_ns)
{
	struct uc_ccc fresh = {.began_ns = now_ns, .ssthresh_bytes = UC_CCC_INFINITE_SSTHRESH};

	fresh.policy = *policy;
	if (!fresh.policy.silence_us)
		fresh.policy.silence_us = UC_CCC_SILENCE_US;
	if (!fresh.policy.burst_segments)
		fresh.policy.burst_segments = UC_CCC_BURST_SEGMENTS;
	if (!fresh.policy.window_max_bytes ||
	    fresh.policy.window_max_bytes > UC_CCC_WINDOW_MAX_BYTES)
		fresh.policy.window_max_bytes = UC_CCC_WINDOW_MAX_BYTES;
	fresh.policy.aggressiveness_q16 = uc_min64(fresh.policy.aggressiveness_q16, 1 << 16);
	if (fresh.policy.size == UC_CCC_SIZE_LAWS)
		fresh.policy.aggressiveness_q16 = 1 << 16;
	/* Epochs are numbered from the clock, and last far longer than a nanosecond each. So no
	 * number of an earlier group in this place is used again, and neither its members nor
	 * zeroed ones count. */
	fresh.guests.epoch = now_ns + 2;
	*ccc = fresh;
}

/* Returns the group's window: the sum of all shares. */
static __always_inline __u32 uc_ccc_window_bytes(const struct uc_ccc *ccc)
{
	return ccc->window_q16 >> 16;
}

/* Returns the length of an epoch: two of the longest round trips, so that each flow that sends
 * reports in it, and at least policy's `silence_us`. */
static __always_inline __u64 uc_ccc_epoch_ns(const struct uc_ccc *ccc)
{
	__u64 srtt_us = uc_max64(ccc->srtt_max_us, ccc->srtt_was_us) >> 3;

	return uc_max64(ccc->policy.silence_us, 2 * srtt_us) * 1000;
}

/* Begins a new epoch if the current one is over. After two epochs without a report nothing counts.
 */
static __always_inline void uc_ccc_advance(struct uc_ccc *ccc, struct uc_ccc_guest *guest,
					   __u64 now_ns)
{
	__u64 past_ns = uc_ccc_less(now_ns, ccc->began_ns), epoch_ns = uc_ccc_epoch_ns(ccc);

	if (past_ns >= epoch_ns) {
		uc_ccc_turn(&ccc->guests, ccc->guests.epoch + (past_ns >= 2 * epoch_ns ? 2 : 1));
		ccc->began_ns = now_ns;
		ccc->srtt_was_us = ccc->srtt_max_us;
		ccc->srtt_max_us = 0;
	}
	uc_ccc_turn(&guest->flows, ccc->guests.epoch);
}

/* Returns the guest's part of `whole` by weight; 0 if the guest isn't counted. */
static __always_inline __u64 uc_ccc_guest_share(const struct uc_ccc *ccc,
						const struct uc_ccc_guest *guest, __u64 whole)
{
	if (!uc_ccc_is_counted(&ccc->guests, &guest->stake))
		return 0;
	return uc_ccc_part(whole, guest->stake.held.weight, ccc->guests.counted.weight);
}

/*
 * Returns the flow's share = whole · weight / sum of weights, at both levels. It is computed from
 * the sums when the flow asks, so each flow has its new share at its next ACK without a loop over
 * flows. The sum of all shares is `whole` less at most one byte for each guest and each flow.
 */
static __always_inline __u64 uc_ccc_share(const struct uc_ccc *ccc,
					  const struct uc_ccc_guest *guest,
					  const struct uc_ccc_flow *flow, __u64 whole)
{
	if (!uc_ccc_is_counted(&guest->flows, &flow->stake))
		return 0;
	return uc_ccc_part(uc_ccc_guest_share(ccc, guest, whole), flow->stake.held.weight,
			   guest->flows.counted.weight);
}

/*
 * Returns the weight that an application-limited member keeps, out of its full weight `claim`. Its
 * share is then twice what it uses: RFC 7661 §4.2 takes a window as validated if half of it is
 * used. Each report moves the weight toward that point, which doesn't depend on the number of other
 * members.
 */
static __always_inline __u64 uc_ccc_released(__u64 weight, __u64 claim, __u64 used_bytes,
					     __u64 share_bytes)
{
	__u64 least = uc_max64(claim >> UC_CCC_RELEASED_SHIFT, 1);

	if (!share_bytes)
		return claim;
	used_bytes = uc_min64(used_bytes, UC_CCC_WINDOW_MAX_BYTES);
	weight = weight * 2 * used_bytes / share_bytes;
	return uc_min64(uc_max64(weight, least), claim);
}

/* Returns the weight of priority 1. Where shares are rates it is the round-trip time (µs × 8),
 * since a rate is a window divided by it (ctrlTCP's figure 5 couples paths of unequal length). */
static __always_inline __u64 uc_ccc_unit(const struct uc_ccc *ccc,
					 const struct uc_ccc_report *report)
{
	const struct uc_ccc_amounts *all = &ccc->guests.counted;

	if (ccc->policy.shares != UC_CCC_BY_RATE)
		return UC_CCC_UNIT;
	if (report->srtt_us)
		return report->srtt_us;
	if (!all->priority)
		return UC_CCC_SRTT_GUESS_US;
	return uc_max64(uc_min64(all->claim / all->priority, UC_CCC_SRTT_MAX_US), 1);
}

#endif
