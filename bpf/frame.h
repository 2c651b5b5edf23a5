/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The cursor of a frame: where its headers lie, and what the link header and the IP header say. It
 * is filled once, from front to back (the TCP header: packet.h); writing, watch and hold use it.
 *
 * A frame may have one VLAN tag (IEEE 802.1Q): in the skb's metadata, where the kernel puts the tag
 * of a guest's frame and of most frames to a guest, or in the frame. A priority tag names no VLAN.
 */
#ifndef UC_FRAME_H
#define UC_FRAME_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../core/core.h"
#include "key.h"

#define UC_ECN_MASK 3
/* IPv4's "more fragments" bit and fragment offset. */
#define UC_FRAGMENT_BITS 0x3fff
/* The VLAN ID in a tag's first two bytes; 0 in a priority tag. */
#define UC_VLAN_ID   0xfff
#define UC_TAG_BYTES 4

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

struct uc_frame {
	__u8 ip;           /* offset of the IP header */
	__u8 tcp;          /* offset of the IP packet's payload */
	__u8 header_bytes; /* length of the TCP header with its options */
	__u8 header_word;  /* the highest byte of the word with the flags and the window */
	__u8 ipv6;
	__u8 ecn;
	__u8 dscp;
	__u8 pad;
};

/* What only the parser needs of a frame. */
struct uc_parsed {
	__u32 end;       /* offset of the IP packet's end; the frame may carry padding behind it */
	__u32 vlan;      /* VLAN ID; 0: in no VLAN */
	__be16 protocol; /* EtherType of what the frame carries, behind its tag */
};

/* Returns whether an EtherType is that of a VLAN tag (802.1Q, 802.1ad). */
static __always_inline int uc_is_tag(__be16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

/* Returns whether the frame has a tag, which a copy of its bytes may lack. */
static __always_inline int uc_is_tagged(const struct __sk_buff *skb, const struct uc_frame *frame)
{
	return skb->vlan_present || frame->ip != ETH_HLEN;
}

/* Reads the link header. Returns UC_TRANSLATED, or why the frame can't be read further. */
static __always_inline enum uc_reason uc_parse_link(struct __sk_buff *skb, struct uc_frame *frame,
						    struct uc_parsed *parsed)
{
	__u32 present = skb->vlan_present, tagged = 0;
	__be16 tag[2]; /* its control information, and the next EtherType */

	frame->ip = ETH_HLEN;
	parsed->protocol = skb->protocol;
	parsed->vlan = skb->vlan_tci & UC_VLAN_ID & -present;
	if (uc_is_tag(parsed->protocol)) {
		if (uc_read(skb, ETH_HLEN, tag, sizeof(tag)))
			return UC_MALFORMED;
		parsed->protocol = tag[1];
		if (present || uc_is_tag(parsed->protocol))
			return UC_VLAN_STACK;
		parsed->vlan = bpf_ntohs(tag[0]) & UC_VLAN_ID;
		tagged = 1;
	}
	/* 14 or 18 for the verifier, on one path */
	uc_merge(tagged, skb->len);
	frame->ip = ETH_HLEN + (tagged & 1) * UC_TAG_BYTES;
	return UC_TRANSLATED;
}

/* Reads an IPv4 header. Returns UC_TRANSLATED if the packet is whole and carries `protocol`; then
 * `frame` and `parsed` are filled in, and the addresses are ::ffff:a.b.c.d (both are zero
 * before). */
static __always_inline enum uc_reason uc_parse_ipv4(struct __sk_buff *skb, __u8 protocol,
						    struct uc_frame *frame,
						    struct uc_parsed *parsed, __u8 source[16],
						    __u8 destination[16])
{
	struct iphdr ip;

	if (uc_read(skb, frame->ip, &ip, sizeof(ip)))
		return UC_MALFORMED;
	if (ip.protocol != protocol)
		return UC_NOT_TCP;
	if (ip.frag_off & bpf_htons(UC_FRAGMENT_BITS))
		return UC_FRAGMENT;
	if (ip.version != 4 || ip.ihl < 5)
		return UC_MALFORMED;
	frame->ecn = ip.tos & UC_ECN_MASK;
	frame->dscp = ip.tos >> 2;
	frame->tcp = frame->ip + ip.ihl * 4;
	parsed->end = frame->ip + bpf_ntohs(ip.tot_len);
	source[10] = source[11] = destination[10] = destination[11] = 0xff;
	__builtin_memcpy(source + 12, &ip.saddr, 4);
	__builtin_memcpy(destination + 12, &ip.daddr, 4);
	return UC_TRANSLATED;
}

/* The header that the kernel puts before TCP in a super-segment above 64 KiB (BIG TCP, before Linux
 * 7.0), and removes when it cuts the segment: one hop-by-hop option, the length of the jumbogram
 * (RFC 2675). */
struct uc_jumbo {
	__u8 next;
	__u8 more_bytes; /* 0 */
	__u8 option;     /* UC_JUMBO_OPTION */
	__u8 option_bytes;
	__be32 payload_bytes; /* IPv6 payload length, with this header */
};

#define UC_JUMBO_OPTION 0xc2

/* Returns the length of the kernel's jumbo header at offset `at`, behind an IPv6 header without a
 * payload length; 0 if it is another header, or the packet needs none. A global function, for its
 * stack. */
__attribute__((noinline)) int uc_jumbo_bytes(struct __sk_buff *skb, __u32 at, __u32 protocol)
{
	__u32 left_bytes = skb->len - at;
	struct uc_jumbo jumbo;

	if (!skb->gso_size || left_bytes <= 0xffff ||
	    bpf_skb_load_bytes(skb, at, &jumbo, sizeof(jumbo)))
		return 0;
	if (jumbo.next != protocol || jumbo.more_bytes || jumbo.option != UC_JUMBO_OPTION ||
	    jumbo.option_bytes != sizeof(jumbo.payload_bytes) ||
	    bpf_ntohl(jumbo.payload_bytes) != left_bytes)
		return 0;
	return sizeof(jumbo);
}

/* Reads an IPv6 header, like uc_parse_ipv4(). No extension header but uc_jumbo is followed. */
static __always_inline enum uc_reason uc_parse_ipv6(struct __sk_buff *skb, __u8 protocol,
						    struct uc_frame *frame,
						    struct uc_parsed *parsed, __u8 source[16],
						    __u8 destination[16])
{
	struct ipv6hdr ip;
	__u32 tcp = frame->ip + sizeof(ip);

	frame->ipv6 = 1;
	if (uc_read(skb, frame->ip, &ip, sizeof(ip)))
		return UC_MALFORMED;
	if (ip.nexthdr == IPPROTO_FRAGMENT)
		return UC_FRAGMENT;
	if (ip.nexthdr == IPPROTO_HOPOPTS && !ip.payload_len) {
		__u32 jumbo_bytes = uc_jumbo_bytes(skb, tcp, protocol);

		if (jumbo_bytes)
			ip.nexthdr = protocol;
		tcp += jumbo_bytes;
	}
	if (ip.nexthdr == IPPROTO_HOPOPTS || ip.nexthdr == IPPROTO_ROUTING ||
	    ip.nexthdr == IPPROTO_DSTOPTS || ip.nexthdr == IPPROTO_AH)
		return UC_IP_EXTENSION;
	if (ip.nexthdr != protocol)
		return UC_NOT_TCP;
	if (ip.version != 6)
		return UC_MALFORMED;
	/* the traffic class straddles the first two bytes; ECN is bits 4 and 5 of the second */
	frame->ecn = ip.flow_lbl[0] >> 4 & UC_ECN_MASK;
	frame->dscp = ip.priority << 2 | ip.flow_lbl[0] >> 6;
	/* for the verifier on one path, with or without the jumbo header, and of a byte */
	uc_merge(tcp, skb->len);
	frame->tcp = tcp;
	parsed->end = frame->tcp + bpf_ntohs(ip.payload_len);
	__builtin_memcpy(source, &ip.saddr, 16);
	__builtin_memcpy(destination, &ip.daddr, 16);
	return UC_TRANSLATED;
}

/* Reads the link header and the IP header of a frame, of either version. Returns as
 * uc_parse_ipv4().
 */
static __always_inline enum uc_reason uc_parse_ip(struct __sk_buff *skb, __u8 protocol,
						  struct uc_frame *frame, struct uc_parsed *parsed,
						  __u8 source[16], __u8 destination[16])
{
	enum uc_reason reason = uc_parse_link(skb, frame, parsed);

	if (reason != UC_TRANSLATED)
		return reason;
	if (parsed->protocol == bpf_htons(ETH_P_IP))
		return uc_parse_ipv4(skb, protocol, frame, parsed, source, destination);
	if (parsed->protocol == bpf_htons(ETH_P_IPV6))
		return uc_parse_ipv6(skb, protocol, frame, parsed, source, destination);
	return UC_NOT_TCP;
}

/* The most extension headers that uc_hides_tcp() follows. */
#define UC_EXTENSIONS_MAX 8

/*
 * Returns whether a packet that uc_parse() could not read may carry TCP: a fragment of it, TCP
 * behind IPv6 extension headers (RFC 8200 §4.1), or what is behind two tags. A chain that is too
 * long or cut short may, too. `ip6`: the offset of the IPv6 header; 0: there is none. A global
 * function, for the verifier (see uc_parse_options()).
 */
__attribute__((noinline)) int uc_hides_tcp(struct __sk_buff *skb, __u32 ip6)
{
	__u32 at = ip6 + sizeof(struct ipv6hdr);
	__u8 next;

	if (!ip6)
		return 1;
	if (bpf_skb_load_bytes(skb, ip6 + offsetof(struct ipv6hdr, nexthdr), &next, 1))
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

#endif
