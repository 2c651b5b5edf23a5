/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which flows an operator's rule matches. A port's rules are tried in order at a flow's SYN; the
 * first that matches sets the flow's policy, and if none matches the flow passes.
 *
 * Addresses are 128 bits in network byte order, IPv4 as ::ffff:a.b.c.d. So a prefix of 0 bits
 * matches both families, and 0.0.0.0/0 has 96 bits.
 */
#ifndef UC_RULE_H
#define UC_RULE_H

#include "policy.h"

/* Maximum number of a port's rules. Each costs time, but only at a SYN. */
#define UC_RULES_MAX 64

/* The header fields of a SYN that rules match. The guest's end is local, whichever end connects. */
struct uc_ends {
	__be32 local[4];
	__be32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u8 dscp; /* RFC 2474: the upper six bits of the traffic class */
	__u8 pad[3];
};

struct uc_match {
	__be32 local[4]; /* bits outside the mask are 0 */
	__be32 local_mask[4];
	__be32 remote[4];
	__be32 remote_mask[4];
	__u16 local_ports[2]; /* the first and the last */
	__u16 remote_ports[2];
	__u64 dscps; /* bit n: DSCP n matches */
};

struct uc_rule {
	struct uc_match match;
	struct uc_policy policy;
	__u8 share; /* the flow's weight in its port's windows; 0: it shares none */
	__u8 pad;
	__u16 number; /* shown to the operator; decides nothing */
};

/* Returns whether a port number is outside a range: a difference is negative then. */
static __always_inline __u8 uc_is_outside(__u16 number, const __u16 range[2])
{
	return (((__u32)number - range[0]) | (range[1] - (__u32)number)) >> 31;
}

/* Returns whether the ends match. It has no branch, because BPF's verifier walks it once for each
 * rule of a page, and would do so for each outcome. */
static __always_inline __u8 uc_matches(const struct uc_match *match, const struct uc_ends *ends)
{
	__u32 differs = 0;

	for (int i = 0; i < 4; i++) {
		differs |= (ends->local[i] & match->local_mask[i]) ^ match->local[i];
		differs |= (ends->remote[i] & match->remote_mask[i]) ^ match->remote[i];
	}
	differs |= uc_is_outside(ends->local_port, match->local_ports);
	differs |= uc_is_outside(ends->remote_port, match->remote_ports);
	differs |= ~match->dscps >> (ends->dscp & 63) & 1;
	/* of every number but 0, the number or its negative has the highest bit */
	return ((differs | -differs) >> 31) ^ 1;
}

#endif
