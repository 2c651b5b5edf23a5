/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Parses a frame into a uc_segment and a uc_key (write.h applies a uc_edit to the bytes). Reading
 * goes through uc_read(), or where it is rare through bpf_skb_load_bytes() alone.
 */
#ifndef UC_PACKET_H
#define UC_PACKET_H

#include <linux/tcp.h>

#include "frame.h"

#define UC_TCP_HEADER  20
#define UC_TCP_WORDS   5
#define UC_OPTIONS_MAX 40

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

/* Reads the SACK blocks of an ACK to the guest of a flow with SACK, if it may have any. SACK blocks
 * in the guest's segments are not read, since the port needs none. */
static __always_inline void uc_read_sack(struct __sk_buff *skb, const struct uc_frame *frame,
					 const struct uc_flow *flow, struct uc_segment *segment)
{
	__be32 first;

	if (segment->direction != UC_TO_GUEST || frame->header_bytes < UC_SACK_HEADER ||
	    !(flow->bits & UC_FLOW_SACK))
		return;
	if (frame->header_bytes == UC_SACK_HEADER &&
	    (uc_read(skb, frame->tcp + UC_TCP_HEADER, &first, sizeof(first)) ||
	     first == bpf_htonl(UC_TIMESTAMPS_WORD)))
		return;
	uc_set_sack_mark(segment, uc_parse_sack(skb, frame->tcp + UC_TCP_HEADER,
						frame->tcp + frame->header_bytes, segment->ack));
}

/* Parses a frame into key, segment and cursor. Returns UC_TRANSLATED, or why it can't be parsed.
 */
static __always_inline enum uc_reason uc_parse(struct __sk_buff *skb, struct uc_key *key,
					       struct uc_segment *segment, struct uc_frame *frame,
					       enum uc_direction direction)
{
	__u8 from_guest = direction == UC_FROM_GUEST;
	__be32 tcp[UC_TCP_WORDS];
	struct uc_parsed parsed = {};
	enum uc_reason reason;
	__u32 payload_at, ports, rest;

	segment->direction = direction;
	reason =
		uc_parse_ip(skb, IPPROTO_TCP, frame, &parsed, from_guest ? key->guest : key->remote,
			    from_guest ? key->remote : key->guest);
	if (reason != UC_TRANSLATED)
		return reason;
	segment->ecn = frame->ecn;
	key->vlan = parsed.vlan;
	if (uc_read(skb, frame->tcp, tcp, sizeof(tcp)))
		return UC_MALFORMED;
	/* ports, SEQ, ACK; data offset, flags and window */
	ports = bpf_ntohl(tcp[0]);
	rest = bpf_ntohl(tcp[3]);

	frame->header_bytes = rest >> 28 << 2;
	frame->header_word = rest >> 24;
	payload_at = frame->tcp + frame->header_bytes;
	/* A super-segment may be longer than the IP header can say (BIG TCP); everything else ends
	 * where the IP header says, and short Ethernet frames carry padding behind it. Not by
	 * gso_segs: it is still 0 when a guest's super-segment leaves a tap. */
	if (skb->gso_size)
		parsed.end = skb->len;
	if (frame->header_bytes < UC_TCP_HEADER || payload_at > parsed.end || parsed.end > skb->len)
		return UC_MALFORMED;

	*(from_guest ? &key->guest_port : &key->remote_port) = bpf_htons(ports >> 16);
	*(from_guest ? &key->remote_port : &key->guest_port) = bpf_htons(ports & 0xffff);
	segment->seq = bpf_ntohl(tcp[1]);
	segment->ack = bpf_ntohl(tcp[2]);
	segment->flags = rest >> 16;
	segment->window = rest;
	if (rest & 1 << 24)
		segment->options |= UC_OPT_AE;
	segment->payload_bytes = parsed.end - payload_at;
	segment->wire_payload_bytes = segment->payload_bytes;
	if (skb->gso_size && skb->gso_size < segment->payload_bytes)
		segment->wire_payload_bytes = skb->gso_size;
	if (segment->flags & UC_SYN) {
		__u64 found = uc_parse_options(skb, frame->tcp + UC_TCP_HEADER,
					       frame->header_bytes - UC_TCP_HEADER);

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
