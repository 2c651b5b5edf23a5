/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which flows a rule of the operator is about. A port's rules are tried in their order at a flow's
 * SYN; the first that matches says its policy, and where none does the flow passes.
 *
 * Addresses are 128 bits in network order, IPv4's as ::ffff:a.b.c.d; so a prefix of no bits is of
 * both families, and 0.0.0.0/0 has 96 bits.
 */
#ifndef UC_RULE_H
#define UC_RULE_H

#include "policy.h"

/* What one match costs is paid at a SYN only; still, each rule of a long list is another. */
#define UC_RULES_MAX 64

#define UC_DSCP_ANY (~0ULL)

/* What of a SYN's headers rules look at. Local is the guest's end, whoever connects. */
struct uc_ends {
	__be32 local[4];
	__be32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u8 dscp; /* RFC 2474: the upper six bits of the traffic class */
	__u8 pad[3];
};

struct uc_match {
	__be32 local[4]; /* 0 where the mask is */
	__be32 local_mask[4];
	__be32 remote[4];
	__be32 remote_mask[4];
	__u16 local_ports[2]; /* the first and the last */
	__u16 remote_ports[2];
	__u64 dscps; /* one bit for each */
};

struct uc_rule {
	struct uc_match match;
	struct uc_policy policy;
	__u8 share; /* the flow's weight in its port's windows; 0: it has none */
	__u8 pad;
	__u16 number; /* by which the operator knows it; nothing is decided by it */
};

static __always_inline __u8 uc_is_outside(__u16 number, const __u16 range[2])
{
	return number < range[0] || number > range[1];
}

/* Without a branch for each field: the verifier walks this once for every rule there may be. */
static __always_inline __u8 uc_matches(const struct uc_match *match, const struct uc_ends *ends)
{
	__u32 differs = 0;

	for (int i = 0; i < 4; i++) {
		differs |= (ends->local[i] & match->local_mask[i]) ^ match->local[i];
		differs |= (ends->remote[i] & match->remote_mask[i]) ^ match->remote[i];
	}
	differs |= uc_is_outside(ends->local_port, match->local_ports);
	differs |= uc_is_outside(ends->remote_port, match->remote_ports);
	differs |= !(match->dscps >> (ends->dscp & 63) & 1);
	return !differs;
}

#endif
