/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * From an Ethernet frame to a uc_segment and a uc_key. (From a uc_edit back to the bytes: write.h.)
 * Reading goes through uc_read(), or where it is rare through bpf_skb_load_bytes() alone.
 */
#ifndef UC_PACKET_H
#define UC_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../core/core.h"
#include "key.h"

#define UC_ECN_MASK 3
/* IPv4's "more fragments" bit and fragment offset. */
#define UC_FRAGMENT_BITS 0x3fff
#define UC_TCP_HEADER    20
#define UC_TCP_WORDS     5
#define UC_OPTIONS_MAX   40

/* The highest offset at which uc_read() reads without a call: a bound for the verifier. */
#define UC_DIRECT_MAX 0xff

/* A word of a packet, whatever struct it is read into. */
typedef __u32 __attribute__((may_alias)) uc_word;

/* Copies `bytes` of the packet, a constant multiple of 4, from offset `at`: word by word where they
 * lie in the skb's linear part, as headers mostly do, else by the helper, which copes with
 * fragments. Returns 0, or a negative error if the packet is shorter. (A memcpy() would be compiled
 * to loads of single bytes.) */
static __always_inline int uc_read(struct __sk_buff *skb, __u32 at, void *to, __u32 bytes)
{
	void *start = (void *)(long)skb->data;

	if (at <= UC_DIRECT_MAX && start + at + bytes <= (void *)(long)skb->data_end) {
		for (__u32 i = 0; i < bytes / 4; i++)
			((uc_word *)to)[i] = ((const uc_word *)(start + at))[i];
		return 0;
	}
	return bpf_skb_load_bytes(skb, at, to, bytes);
}

/* Where the fields are that an edit writes, and what rules match in addition to the key. */
struct uc_offsets {
	__u32 tcp;
	__u8 ipv6;
	__u8 header_bytes; /* TCP header with options */
	__u8 header_word;  /* the highest byte of the word with the flags and the window */
	__u8 dscp;
};

/* Option kinds: RFC 9293, 7323, 2018, 2385, 5925, 8684. */
enum {
	UC_KIND_END = 0,
	UC_KIND_NOP = 1,
	UC_KIND_MSS = 2,
	UC_KIND_WSCALE = 3,
	UC_KIND_SACK_PERMITTED = 4,
	UC_KIND_SACK = 5,
	UC_KIND_TIMESTAMPS = 8,
	UC_KIND_MD5 = 19,
	UC_KIND_AO = 29,
	UC_KIND_MPTCP = 30,
};

/* Where the payload of an IP packet lies in the frame, and what its header says. */
struct uc_ip {
	__u32 payload_at;
	__u32 end_at; /* by the header's length; the frame may carry padding behind it */
	__u8 ipv6;
	__u8 ecn;
	__u8 dscp;
};

/* Reads an IPv4 header. Returns UC_TRANSLATED if the packet is whole and carries `protocol`; then
 * `ip` is filled in, and the addresses are ::ffff:a.b.c.d (both are zero before). */
static __always_inline enum uc_reason uc_parse_ipv4(struct __sk_buff *skb, __u8 protocol,
						    struct uc_ip *at, __u8 source[16],
						    __u8 destination[16])
{
	struct iphdr ip;

	if (uc_read(skb, ETH_HLEN, &ip, sizeof(ip)))
		return UC_MALFORMED;
	if (ip.protocol != protocol)
		return UC_NOT_TCP;
	if (ip.frag_off & bpf_htons(UC_FRAGMENT_BITS))
		return UC_FRAGMENT;
	if (ip.version != 4 || ip.ihl < 5)
		return UC_MALFORMED;
	at->ecn = ip.tos & UC_ECN_MASK;
	at->dscp = ip.tos >> 2;
	at->payload_at = ETH_HLEN + ip.ihl * 4;
	at->end_at = ETH_HLEN + bpf_ntohs(ip.tot_len);
	source[10] = source[11] = destination[10] = destination[11] = 0xff;
	__builtin_memcpy(source + 12, &ip.saddr, 4);
	__builtin_memcpy(destination + 12, &ip.daddr, 4);
	return UC_TRANSLATED;
}

/* Reads an IPv6 header, like uc_parse_ipv4(). Extension headers are not followed. */
static __always_inline enum uc_reason uc_parse_ipv6(struct __sk_buff *skb, __u8 protocol,
						    struct uc_ip *at, __u8 source[16],
						    __u8 destination[16])
{
	struct ipv6hdr ip;

	if (uc_read(skb, ETH_HLEN, &ip, sizeof(ip)))
		return UC_MALFORMED;
	if (ip.nexthdr == IPPROTO_FRAGMENT)
		return UC_FRAGMENT;
	if (ip.nexthdr == IPPROTO_HOPOPTS || ip.nexthdr == IPPROTO_ROUTING ||
	    ip.nexthdr == IPPROTO_DSTOPTS || ip.nexthdr == IPPROTO_AH)
		return UC_IP_EXTENSION;
	if (ip.nexthdr != protocol)
		return UC_NOT_TCP;
	if (ip.version != 6)
		return UC_MALFORMED;
	at->ipv6 = 1;
	/* the traffic class straddles the first two bytes; ECN is bits 4 and 5 of the second */
	at->ecn = ip.flow_lbl[0] >> 4 & UC_ECN_MASK;
	at->dscp = ip.priority << 2 | ip.flow_lbl[0] >> 6;
	at->payload_at = ETH_HLEN + sizeof(ip);
	at->end_at = at->payload_at + bpf_ntohs(ip.payload_len);
	__builtin_memcpy(source, &ip.saddr, 16);
	__builtin_memcpy(destination, &ip.daddr, 16);
	return UC_TRANSLATED;
}

/* Reads the IP header of a frame, of either version. Returns as uc_parse_ipv4(). */
static __always_inline enum uc_reason uc_parse_ip(struct __sk_buff *skb, __u8 protocol,
						  struct uc_ip *at, __u8 source[16],
						  __u8 destination[16])
{
	/* The kernel takes the tag off the frame before a guest's reaches the port, and has not put
	 * it on one for the guest. Two VLANs may have the same addresses. */
	if (skb->vlan_present)
		return UC_NOT_TCP;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return uc_parse_ipv4(skb, protocol, at, source, destination);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return uc_parse_ipv6(skb, protocol, at, source, destination);
	return UC_NOT_TCP;
}

/* The most extension headers that uc_hides_tcp() follows. */
#define UC_EXTENSIONS_MAX 8

/*
 * Returns whether a packet that uc_parse() could not read may carry TCP: a fragment of it, or TCP
 * behind IPv6 extension headers (RFC 8200 §4.1). A chain that is too long or cut short may, too. A
 * global function, for the verifier (see uc_parse_options()).
 */
__attribute__((noinline)) int uc_hides_tcp(struct __sk_buff *skb)
{
	__u32 at = ETH_HLEN + sizeof(struct ipv6hdr);
	__u8 next;

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return 1;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, 1))
		return 1;
	for (int i = 0; i < UC_EXTENSIONS_MAX; i++) {
		/* next header, length, and of a fragment its offset in the upper 13 bits */
		__u8 header[4];

		if (next == IPPROTO_TCP)
			return 1;
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_AH && next != IPPROTO_FRAGMENT)
			return 0;
		if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
			return 1;
		/* what the first fragment carries decides */
		if (next == IPPROTO_FRAGMENT && (header[2] || header[3] & 0xf8))
			return header[0] == IPPROTO_TCP;
		if (next == IPPROTO_FRAGMENT)
			at += 8;
		else if (next == IPPROTO_AH)
			at += (header[1] + 2) * 4;
		else
			at += (header[1] + 1) * 8;
		next = header[0];
	}
	return 1;
}

/* uc_parse_options() returns mss_bytes << 16 | wscale << 8 | UC_OPT_*, with UC_OPT_BROKEN if an
 * option contradicts its length. */

/*
 * Parses the options of a SYN or SYN-ACK, `bytes` long at offset `at`. Skips options of unknown
 * kind, and ends at one that contradicts its length. A global function: the verifier checks its
 * loop once, and not for each state of the caller.
 */
__attribute__((noinline)) __u64 uc_parse_options(struct __sk_buff *skb, __u32 at, __u32 bytes)
{
	/* three values in one word, to save stack */
	__u64 found = 0;
	__u32 offset = 0;

	for (int i = 0; i < UC_OPTIONS_MAX; i++) {
		/* kind, length and as much of the value as is ever needed */
		__u8 option[4] = {};

		if (offset >= bytes || bpf_skb_load_bytes(skb, at + offset, option, 1))
			break;
		if (option[0] == UC_KIND_END)
			break;
		if (option[0] == UC_KIND_NOP) {
			offset++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, at + offset, option, 2) || option[1] < 2 ||
		    offset + option[1] > bytes)
			return found | UC_OPT_BROKEN;
		switch (option[0]) {
		case UC_KIND_MSS:
			if (option[1] != 4 || bpf_skb_load_bytes(skb, at + offset, option, 4))
				return found | UC_OPT_BROKEN;
			found &= ~(0xffffULL << 16);
			found |= UC_OPT_MSS | (__u64)option[2] << 24 | option[3] << 16;
			break;
		case UC_KIND_WSCALE:
			if (option[1] != 3 || bpf_skb_load_bytes(skb, at + offset, option, 3))
				return found | UC_OPT_BROKEN;
			found &= ~(0xffULL << 8);
			found |= UC_OPT_WSCALE | option[2] << 8;
			break;
		case UC_KIND_SACK_PERMITTED:
			found |= UC_OPT_SACK;
			break;
		case UC_KIND_TIMESTAMPS:
			found |= UC_OPT_TIMESTAMPS;
			break;
		case UC_KIND_MD5:
		case UC_KIND_AO:
			found |= UC_OPT_SIGNED;
			break;
		case UC_KIND_MPTCP:
			found |= UC_OPT_MPTCP;
			break;
		}
		offset += option[1];
	}
	return found;
}

/* The shortest TCP header with a SACK block (RFC 2018 §3), filled up to a word. It has room for
 * timestamps instead; two NOPs, kind and length then begin its options (RFC 7323 appendix A). */
#define UC_SACK_HEADER     32
#define UC_TIMESTAMPS_WORD 0x0101080a

/*
 * Returns uc_sack_mark() of an ACK whose options lie from offset `at` to `end`; 0 if it has no
 * block. A global function, as uc_parse_options(). Its callers have 32 bytes of stack left for it.
 */
__attribute__((noinline)) __u32 uc_parse_sack(struct __sk_buff *skb, __u32 at, __u32 end, __u32 ack)
{
	struct uc_sack sack = {};
	__u8 *option = (__u8 *)&sack;

	for (int i = 0; i < UC_OPTIONS_MAX; i++) {
		if (at >= end || bpf_skb_load_bytes(skb, at, option, 1) || option[0] == UC_KIND_END)
			return 0;
		if (option[0] == UC_KIND_NOP) {
			at++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, at, option, 2) || option[1] < 2 || at + option[1] > end)
			return 0;
		if (option[0] == UC_KIND_SACK)
			break;
		at += option[1];
	}
	if (option[0] != UC_KIND_SACK || option[1] < 10)
		return 0;
	/* the second block first: the first one lies over the option's length */
	if (option[1] < 18 || bpf_skb_load_bytes(skb, at + 10, &sack.next_left, 8))
		sack.next_left = sack.next_right = 0;
	if (bpf_skb_load_bytes(skb, at + 2, &sack.left, 8))
		return 0;
	sack.left = bpf_ntohl(sack.left);
	sack.right = bpf_ntohl(sack.right);
	sack.next_left = bpf_ntohl(sack.next_left);
	sack.next_right = bpf_ntohl(sack.next_right);
	return uc_sack_mark(&sack, ack);
}

/* Reads the SACK blocks of an ACK to the guest of a flow with SACK, if it may have any. Data of the
 * guest tell the port nothing by theirs. */
static __always_inline void uc_read_sack(struct __sk_buff *skb, const struct uc_offsets *at,
					 const struct uc_flow *flow, struct uc_segment *segment)
{
	__be32 first;

	if (segment->direction != UC_TO_GUEST || at->header_bytes < UC_SACK_HEADER ||
	    !(flow->bits & UC_FLOW_SACK))
		return;
	if (at->header_bytes == UC_SACK_HEADER &&
	    (uc_read(skb, at->tcp + UC_TCP_HEADER, &first, sizeof(first)) ||
	     first == bpf_htonl(UC_TIMESTAMPS_WORD)))
		return;
	uc_set_sack_mark(segment, uc_parse_sack(skb, at->tcp + UC_TCP_HEADER,
						at->tcp + at->header_bytes, segment->ack));
}

/* Parses a frame into key, segment and offsets. Returns UC_TRANSLATED, or why it can't be parsed.
 */
static __always_inline enum uc_reason uc_parse(struct __sk_buff *skb, struct uc_key *key,
					       struct uc_segment *segment, struct uc_offsets *at,
					       enum uc_direction direction)
{
	__u8 from_guest = direction == UC_FROM_GUEST;
	__be32 tcp[UC_TCP_WORDS];
	enum uc_reason reason;
	struct uc_ip ip = {};
	__u32 payload_at, ports, rest;

	segment->direction = direction;
	reason = uc_parse_ip(skb, IPPROTO_TCP, &ip, from_guest ? key->guest : key->remote,
			     from_guest ? key->remote : key->guest);
	if (reason != UC_TRANSLATED)
		return reason;
	segment->ecn = ip.ecn;
	at->ipv6 = ip.ipv6;
	at->dscp = ip.dscp;
	at->tcp = ip.payload_at;
	if (uc_read(skb, at->tcp, tcp, sizeof(tcp)))
		return UC_MALFORMED;
	/* ports, SEQ, ACK; data offset, flags and window */
	ports = bpf_ntohl(tcp[0]);
	rest = bpf_ntohl(tcp[3]);

	at->header_bytes = rest >> 28 << 2;
	at->header_word = rest >> 24;
	payload_at = at->tcp + at->header_bytes;
	/* A super-segment may be longer than the IP header can say (BIG TCP); everything else ends
	 * where the IP header says, and short Ethernet frames carry padding behind it. Not by
	 * gso_segs: it is still 0 when a guest's super-segment leaves a tap. */
	if (skb->gso_size)
		ip.end_at = skb->len;
	if (at->header_bytes < UC_TCP_HEADER || payload_at > ip.end_at || ip.end_at > skb->len)
		return UC_MALFORMED;

	*(from_guest ? &key->guest_port : &key->remote_port) = bpf_htons(ports >> 16);
	*(from_guest ? &key->remote_port : &key->guest_port) = bpf_htons(ports & 0xffff);
	segment->seq = bpf_ntohl(tcp[1]);
	segment->ack = bpf_ntohl(tcp[2]);
	segment->flags = rest >> 16;
	segment->window = rest;
	if (rest & 1 << 24)
		segment->options |= UC_OPT_AE;
	segment->payload_bytes = ip.end_at - payload_at;
	segment->wire_payload_bytes = segment->payload_bytes;
	if (skb->gso_size && skb->gso_size < segment->payload_bytes)
		segment->wire_payload_bytes = skb->gso_size;
	if (segment->flags & UC_SYN) {
		__u64 found = uc_parse_options(skb, at->tcp + UC_TCP_HEADER,
					       at->header_bytes - UC_TCP_HEADER);

		/* an answer may be to the host's offer of ECN: the core keeps what was agreed */
		if (found & UC_OPT_BROKEN && (from_guest || !(segment->flags & UC_ACK)))
			return UC_MALFORMED;
		segment->options |= found;
		segment->wscale = found >> 8;
		segment->mss_bytes = found >> 16;
	}
	return UC_TRANSLATED;
}

#endif
