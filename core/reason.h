/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Why a segment was treated as it was: one list, from which the counters' names and the docs come.
 *
 * Invariant "fail open": with any reason but UC_TRANSLATED, UC_RESYNCED, UC_DOWNGRADED, UC_HELD,
 * UC_COARSE_WINDOW and those of uc_drops() the packet passes unmodified. Two exceptions: the answer
 * to an ECN offer that the guest didn't make is cleared in a SYN-ACK, and a packet that the kernel
 * refused to write (UC_EDIT_FAILED) may be half written.
 */
#ifndef UC_REASON_H
#define UC_REASON_H

/* X(name, label, what it means) */
#define UC_REASONS(X)                                                                              \
	X(TRANSLATED, "translated", "the segment belongs to a translated flow")                    \
	X(NOT_TCP, "not_tcp", "not TCP over IPv4 or IPv6: UDP, ICMP, ARP, anything else")          \
	X(FRAGMENT, "fragment", "an IP fragment: its TCP header may be elsewhere")                 \
	X(IP_EXTENSION, "ip_extension", "IPv6 extension headers before TCP")                       \
	X(VLAN_STACK, "vlan_stack", "behind two VLAN tags: it is not read")                        \
	X(MALFORMED, "malformed", "headers that contradict their own lengths")                     \
	X(NO_POLICY, "no_policy",                                                                  \
	  "no rule of this port matches the flow, or its policy says pass")                        \
	X(NO_HANDSHAKE, "no_handshake",                                                            \
	  "not in the table: a flow whose handshake was not seen whole, or passed")                \
	X(GUEST_SPEAKS_ECN, "guest_speaks_ecn", "the guest negotiates ECN (or AccECN) itself")     \
	X(PEER_REFUSED_ECN, "peer_refused_ecn", "the other end does not speak ECN")                \
	X(SIGNED, "signed", "TCP MD5 or TCP-AO signs the fields we would edit")                    \
	X(MPTCP, "mptcp", "Multipath TCP: its windows belong to the connection, not the flow")     \
	X(COARSE_WINDOW, "coarse_window",                                                          \
	  "only its marks are answered: the peer's window scale can't express one segment, its "   \
	  "SYN-ACK has broken options, or the port drains")                                        \
	X(TABLE_FULL, "table_full", "the flow table had no free place")                            \
	X(QUOTA_FULL, "quota_full", "the port had as many flows as its quota allows")              \
	X(BEYOND_EDGE, "beyond_edge",                                                              \
	  "dropped: data beyond the window given, which policy forbids")                           \
	X(RESYNCED, "resynced",                                                                    \
	  "translated, and shows that the port has missed segments: the flow goes on from there")  \
	X(HALF_BLIND, "half_blind",                                                                \
	  "one of the port's two programs does not see its packets: no ECN is asked for")          \
	X(UNECHOED, "unechoed",                                                                    \
	  "dropped: a mark that the port could not echo, as it sees no packet of the guest")       \
	X(EDIT_FAILED, "edit_failed", "the kernel refused to write the packet")                    \
	X(DOWNGRADED, "downgraded",                                                                \
	  "translated, after AccECN or MPTCP was removed from its SYN or SYN-ACK")                 \
	X(ECN_AVOIDED, "ecn_avoided",                                                              \
	  "the remote address has refused, lost or marked all that asked for ECN within the last " \
	  "hour: its flows go without")                                                            \
	X(ACCURATE_ECN, "accurate_ecn",                                                            \
	  "translated: the other end's SYN offers AccECN, and gets classic ECN if the law uses "   \
	  "it")                                                                                    \
	X(HELD, "held",                                                                            \
	  "held by strict mode: its windows can't be written, and data beyond the law's is "       \
	  "dropped")                                                                               \
	X(UNANSWERED, "unanswered",                                                                \
	  "dropped: a mark on data of a flow that is not in the table, whose guest answers no "    \
	  "mark")                                                                                  \
	X(STRICT_FRAGMENT, "strict_fragment", "dropped by strict mode: a fragment of TCP")         \
	X(STRICT_IP_EXTENSION, "strict_ip_extension",                                              \
	  "dropped by strict mode: IPv6 extension headers before TCP")                             \
	X(STRICT_VLAN_STACK, "strict_vlan_stack", "dropped by strict mode: two VLAN tags")         \
	X(STRICT_MALFORMED, "strict_malformed",                                                    \
	  "dropped by strict mode: headers that contradict their own lengths")                     \
	X(STRICT_SIGNED, "strict_signed",                                                          \
	  "dropped by strict mode: a SYN that TCP MD5 or AO signs")                                \
	X(STRICT_TABLE_FULL, "strict_table_full",                                                  \
	  "dropped by strict mode: the flow table had no free place")                              \
	X(STRICT_QUOTA_FULL, "strict_quota_full",                                                  \
	  "dropped by strict mode: the port had as many flows as its quota allows")                \
	X(STRICT_HALF_BLIND, "strict_half_blind",                                                  \
	  "dropped by strict mode: one of the port's two programs does not see its packets")       \
	X(STRICT_NO_HANDSHAKE, "strict_no_handshake",                                              \
	  "dropped by strict mode: it does not fit the handshake that was seen")

enum uc_reason {
#define UC_REASON_ENUM(name, label, meaning) UC_##name,
	UC_REASONS(UC_REASON_ENUM)
#undef UC_REASON_ENUM
		UC_REASON_COUNT
};

/* Returns whether the packet must be dropped: by policy's guard, by strict mode, or because nobody
 * would answer its mark. */
static __always_inline int uc_drops(enum uc_reason reason)
{
	return reason == UC_BEYOND_EDGE || reason == UC_UNECHOED || reason >= UC_UNANSWERED;
}

/* Returns whether the segment belongs to a known flow that goes on. */
static __always_inline int uc_goes_on(enum uc_reason reason)
{
	return reason == UC_TRANSLATED || reason == UC_RESYNCED || reason == UC_HELD ||
	       reason == UC_COARSE_WINDOW;
}

/* Returns whether a known flow must be removed from the table. */
static __always_inline int uc_forgets(enum uc_reason reason)
{
	return !uc_goes_on(reason) && reason != UC_NO_HANDSHAKE && !uc_drops(reason);
}

#endif
