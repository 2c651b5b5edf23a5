/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group: the flows that share a bottleneck, by whatever policy says so (a pair of hosts, a
 * prefix, a tenant). Its window is divided twice, first among guests by their weights, then among
 * the flows of each by their priorities. Divided once, among flows, a guest with four flows would
 * have four fifths beside a guest with one, which is what coupling is to end.
 *
 * Three structs, wherever a home keeps them; none points to another. The group's lock, if the home
 * has one, covers the group, its guests and its flows.
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
	UC_CCC_SIZE_LAWS, /* flows, and each answers for itself: sum.h */
};

/* All zero is a policy: one TCP, shares of the window. */
struct uc_ccc_policy {
	/*
	 * How a group of n is as aggressive as a = 1 + this·(n − 1) TCPs, in 1/2^16: 0, as one
	 * (E-TCP, the draft); 65536, as n (MulTCP, EFCM).
	 */
	__u32 aggressiveness_q16;
	__u32 silence_us;       /* the least length of an epoch; 0: 200 ms */
	__u32 window_max_bytes; /* of the whole group; 0: 2^30 */
	__u16 burst_segments;   /* what a flow may send at once though the others' packets are still
				 * in flight; 0: 2, for which no delayed ACK waits;
				 * 65535: all of its share */
	__u8 shares;            /* enum uc_ccc_shares */
	__u8 size;              /* enum uc_ccc_size: what n counts, of what the window limits */
};

struct uc_ccc {
	struct uc_ccc_pool guests;
	__u64 window_q16; /* bytes; the sum of all shares */
	__u64 began_ns;   /* of this epoch */
	__u64 cut_ns;     /* the last reaction to a loss event; 0: none yet */
	__u32 ssthresh_bytes;
	__u32 srtt_max_us;  /* ×8, in this epoch */
	__u32 srtt_was_us;  /* and in the one before */
	__u32 cuts;         /* loss events that the group has answered */
	__u32 spare_q16;    /* of its TCPs, those that haven't answered the last one */
	__u32 before_bytes; /* its window before that */
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
	__u32 given_bytes; /* the last answer */
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

/* A home calls this for a new group, and forgets the guests and flows of an older one with it. */
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
	/* An epoch is far longer than a nanosecond. So no number of an earlier group under the same
	 * name comes back, and no stake of it is taken for one in this; nor is a zeroed one. */
	fresh.guests.epoch = now_ns + 2;
	*ccc = fresh;
}

static __always_inline __u32 uc_ccc_window_bytes(const struct uc_ccc *ccc)
{
	return ccc->window_q16 >> 16;
}

/* An epoch lasts two round trips of whoever has the longest: each flow that sends at all reports
 * in it. */
static __always_inline __u64 uc_ccc_epoch_ns(const struct uc_ccc *ccc)
{
	__u64 srtt_us = uc_max64(ccc->srtt_max_us, ccc->srtt_was_us) >> 3;

	return uc_max64(ccc->policy.silence_us, 2 * srtt_us) * 1000;
}

/* Where time has gone. Two epochs without a word: nobody is there any more. */
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

static __always_inline __u64 uc_ccc_guest_share(const struct uc_ccc *ccc,
						const struct uc_ccc_guest *guest, __u64 whole)
{
	if (!uc_ccc_is_counted(&ccc->guests, &guest->stake))
		return 0;
	return uc_ccc_part(whole, guest->stake.held.weight, ccc->guests.counted.weight);
}

/*
 * share = whole · weight / weights, at both levels: computed from the sums when the flow asks, so
 * every flow has its new share at its next ACK and nothing visits the others. All shares together
 * make the whole, less one byte at most for each guest and each flow.
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
 * What a member that its application limits keeps of its claim: as much weight as makes its share
 * twice what it uses (RFC 7661 §4.2 takes a window for validated when half of it is used). Each
 * report moves it towards that; the fixed point doesn't depend on the others' number.
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

/* The weight of priority 1: shares of the rate are windows over round-trip times (ctrlTCP's fig5
 * couples paths of unequal length). */
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
