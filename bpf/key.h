/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The key of a flow, by which the maps of all programs find what they keep of it.
 */
#ifndef UC_KEY_H
#define UC_KEY_H

#include <linux/types.h>

/* One direction-independent key for each flow at each port; IPv4 addresses are ::ffff:a.b.c.d. The
 * port is part of the key, because two guests of a host may use the same addresses, and a flow
 * between two guests of the host is a flow at each port. So is the VLAN: flows of two VLANs may
 * have the same addresses. */
struct uc_key {
	__u32 ifindex; /* of the port */
	__be16 guest_port;
	__be16 remote_port;
	__u8 guest[16];
	__u8 remote[16];
	__u32 vlan; /* VLAN ID; 0: in none */
};

/* For a key on the stack: uc_is_same_key() reads it by words of 64 bits. */
#define UC_KEY_ALIGNED __attribute__((aligned(8)))

#define UC_KEY_WORDS (sizeof(struct uc_key) / 4)

/*
 * Returns a hash of the key, odd and so never 0, which a value of a hash map stores to show whose
 * it is. The kernel reuses the element of a deleted key at once for another key, even while another
 * CPU holds a pointer to it from a lookup. So a program that takes a value's lock compares the tag,
 * and treats another tag as "not found".
 *
 * The hash is UMAC's NH (RFC 4418 §5.2.2) over the key's words: its multiplications don't depend on
 * each other. The constants are multiples of the golden ratio, odd and without a pattern.
 */
static __always_inline __u32 uc_tag_of(const struct uc_key *key)
{
	const __u32 *word = (const __u32 *)key;
	__u32 constant = 0x9e3779b9U;
	__u64 sum = 0;

	for (unsigned int i = 0; i < UC_KEY_WORDS; i += 2) {
		__u32 even = word[i] + constant * (i + 1);
		__u32 odd = (i + 1 < UC_KEY_WORDS ? word[i + 1] : 0) + constant * (i + 2);

		sum += (__u64)even * odd;
	}
	return (sum ^ sum >> 32) | 1;
}

#endif
