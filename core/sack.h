/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which ACKs bring news of data behind a hole. Where SACK is agreed, an ACK is a duplicate if its
 * blocks report data that no ACK before has reported (RFC 6675 §2), whatever window it carries and
 * whatever data. RFC 5681's conditions (the same window, no data) are those of guests without SACK:
 * receivers enlarge their windows while they autotune, and in two-way flows data carry the ACK
 * numbers.
 *
 * The first block holds the segment that caused the ACK (RFC 2018 §4), so it differs from the one
 * before in each ACK that brings news, and is repeated in an ACK that brings none: a window that
 * opens, or data of the peer. The platform reduces it to a number of 16 bits, which the flow
 * remembers.
 */
#ifndef UC_SACK_H
#define UC_SACK_H

#include "segment.h"

/* The first two blocks of an ACK, [left, right); an absent one has no bytes. */
struct uc_sack {
	__u32 left;
	__u32 right;
	__u32 next_left;
	__u32 next_right;
};

/*
 * Returns a number, not 0, that changes with the first block; 0: the ACK reports nothing behind a
 * hole. A first block below the ACK number, or inside the second block, is a D-SACK (RFC 2883 §4):
 * it reports a segment that came twice. The second block then is the one that counts: as the ACK
 * before had it, or if that was lost, the news.
 */
static __always_inline __u16 uc_sack_mark(const struct uc_sack *sack, __u32 ack)
{
	__u32 left = sack->left, right = sack->right, mixed;
	__u8 inside = sack->next_left != sack->next_right && !uc_before(left, sack->next_left) &&
		      !uc_after(right, sack->next_right);

	if (!uc_after(right, ack) || inside) {
		left = sack->next_left;
		right = sack->next_right;
	}
	if (left == right || !uc_after(right, ack))
		return 0;
	mixed = left * 0x9e3779b1U ^ right;
	return (__u16)(mixed >> 16 ^ mixed) | 1;
}

/* Stores a SACK fingerprint (uc_sack_mark()) in the segment, in `mss_bytes`; 0 stores nothing. */
static __always_inline void uc_set_sack_mark(struct uc_segment *segment, __u16 mark)
{
	if (!mark)
		return;
	segment->options |= UC_OPT_SACK;
	segment->mss_bytes = mark;
}

#endif
