/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Strict mode: no flow of a guest goes untranslated, unless policy passes it. What can't be
 * translated is
 *
 *   downgraded  AccECN's AE and the MPTCP options are removed from SYN and SYN-ACK
 *               (downgrade.h), so that both ends fall back to plain TCP (RFC 9768 §3.1.2, RFC 8684
 *               §3.7); a guest's own ECN offer is replaced by the host's, as with guest_ecn
 *               `translate`
 *   held        a law that needs ECN runs without marks if the peer has none, or if the port may be
 *               half-blind (hooks.h); if the windows can't be written, because their scale is
 *               coarse or unknown, data beyond the law's window is dropped instead (UC_FLOW_HELD,
 *               guard.h)
 *   dropped     everything else that the guest sends: fragments and IPv6 extension headers before
 *               TCP, frames with two VLAN tags, malformed headers, signed SYNs, SYNs without room
 *               in the table or quota, handshakes that don't fit the flow
 *
 * Only what the guest sends is dropped, and SYN-ACKs to it that answer no SYN that the host has
 * seen.
 */
#ifndef UC_STRICT_H
#define UC_STRICT_H

#include "edit.h"
#include "flow.h"
#include "reason.h"
#include "segment.h"

/* X(NAME): where a segment of the guest would pass for reason UC_NAME, strict mode drops it for
 * reason UC_STRICT_NAME. */
#define UC_STRICT_REASONS(X)                                                                       \
	X(FRAGMENT)                                                                                \
	X(IP_EXTENSION)                                                                            \
	X(VLAN_STACK)                                                                              \
	X(MALFORMED) X(SIGNED) X(TABLE_FULL) X(QUOTA_FULL) X(HALF_BLIND) X(NO_HANDSHAKE)

/* Returns why a segment of a strict port's guest is dropped, instead of passed for `reason`. Any
 * other reason is returned as it is. */
static __always_inline enum uc_reason uc_strict_reason(enum uc_reason reason)
{
	switch (reason) {
#define UC_STRICT_CASE(NAME)                                                                       \
	case UC_##NAME:                                                                            \
		return UC_STRICT_##NAME;
		UC_STRICT_REASONS(UC_STRICT_CASE)
#undef UC_STRICT_CASE
	default:
		return reason;
	}
}

/* Returns the verdict on a packet that can't be parsed, or for whose SYN there is no room.
 * `strict`: the policy of its flow, or of any rule of the port if its flow is unknown. */
static __always_inline enum uc_reason uc_verdict_of(__u8 strict, __u8 direction,
						    enum uc_reason reason)
{
	return strict && direction == UC_FROM_GUEST ? uc_strict_reason(reason) : reason;
}

/* Returns whether strict mode opens a flow on a port that may be half-blind. The platform then adds
 * UC_MODE_NO_ECT to its policy. If the port does not see the answer, the guest's data is
 * dropped. */
static __always_inline __u8 uc_opens_blind(const struct uc_policy *policy,
					   const struct uc_segment *syn)
{
	return syn->blind && uc_is_strict(policy);
}

/* Returns whether guests that negotiate ECN are treated as guests without it. */
static __always_inline __u8 uc_translates_guest_ecn(const struct uc_policy *policy)
{
	return (policy->guest_ecn == UC_GUEST_ECN_TRANSLATE || uc_is_strict(policy)) &&
	       !uc_observes(policy);
}

/* Returns whether flows need ECN to be translated. */
static __always_inline __u8 uc_needs_ecn(const struct uc_policy *policy)
{
	return uc_law_has(policy->law, UC_NEEDS_ECN) && !uc_is_strict(policy);
}

#endif
