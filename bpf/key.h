/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The key of a flow, by which the maps of all programs find what they keep of it.
 */
#ifndef UC_KEY_H
#define UC_KEY_H

#include <linux/types.h>

/* IPv4 addresses as ::ffff:a.b.c.d. The port is part of the key: two guests of one host may use
 * the same addresses, and a flow between them is two flows. */
struct uc_key {
	__u32 ifindex; /* of the port */
	__be16 guest_port;
	__be16 remote_port;
	__u8 guest[16];
	__u8 remote[16];
};

#define UC_KEY_WORDS (sizeof(struct uc_key) / 4)

/*
 * By which a value tells whose it is. The kernel gives the element of a deleted key to the next one
 * at once, also while another CPU holds a pointer to it from a lookup: who takes a value's lock
 * looks whether it is still its key's, and else has found nothing. (The next one's value is copied
 * in without the lock; so a CPU that is between lock and unlock at that moment is not told.)
 *
 * UMAC's NH (RFC 4418 §5.2.2) over the key's words, whose multiplications don't wait for each
 * other; the constants are the golden ratio's multiples, odd and without a pattern.
 */
static __always_inline __u32 uc_tag_of(const struct uc_key *key)
{
	const __u32 *word = (const __u32 *)key;
	__u32 constant = 0x9e3779b9U;
	__u64 sum = 0;

	for (unsigned int i = 0; i < UC_KEY_WORDS; i += 2) {
		__u32 even = word[i] + constant * (i + 1), odd = word[i + 1] + constant * (i + 2);

		sum += (__u64)even * odd;
	}
	return sum ^ sum >> 32;
}

#endif
