/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Applies a uc_edit to the bytes and the checksums of the packet.
 *
 * What lies in the skb's linear part is written without a call. Helpers of the kernel write the
 * rest, and two values that a program can't read: the TCP checksum, which may be partial or absent,
 * and the skb's own sum of the whole packet. An edit of IPv4's header leaves that sum as it is,
 * since the header's checksum makes up for it; one of IPv6's, which has none, does not. Before a
 * program that writes so runs, the kernel makes a cloned skb's linear part writable; where it has
 * no memory for a copy, it drops the packet.
 */
#ifndef UC_WRITE_H
#define UC_WRITE_H

#include "packet.h"

/* Where the word with the flags and the window lies in the TCP header. */
#define UC_FLAGS_AT 12

/* Returns an Internet checksum after a word of what it covers has changed (RFC 1624 §3, equation
 * 3). */
static __always_inline __sum16 uc_sum_replace(__sum16 check, __be16 old, __be16 new)
{
	__u32 sum = (__u16)~check + (__u16)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

/* Returns the IP header at offset `at`, of which `bytes` lie in the skb's linear part then; NULL if
 * the packet is shorter, or the kernel has no memory to put them there. */
static __always_inline void *uc_ip_header(struct __sk_buff *skb, __u32 at, __u32 bytes)
{
	void *ip;

	/* for the verifier: a constant or a small number */
	at &= UC_DIRECT_MAX;
	ip = (void *)(long)skb->data + at;
	if (ip + bytes <= (void *)(long)skb->data_end)
		return ip;
	if (bpf_skb_pull_data(skb, at + bytes))
		return NULL;
	ip = (void *)(long)skb->data + at;
	return ip + bytes <= (void *)(long)skb->data_end ? ip : NULL;
}

/* Writes the ECN codepoint of the IPv4 header at offset `at`. Returns 0, or a negative error. */
static __always_inline int uc_write_ecn4(struct __sk_buff *skb, __u32 at, __u8 ecn)
{
	struct iphdr *ip = uc_ip_header(skb, at, sizeof(*ip));
	__u8 tos;

	if (!ip)
		return -1;
	tos = (ip->tos & ~UC_ECN_MASK) | ecn;
	ip->check = uc_sum_replace(ip->check, bpf_htons(ip->tos), bpf_htons(tos));
	ip->tos = tos;
	return 0;
}

/* Writes the ECN codepoint of the IPv6 header at offset `at`, in bits 4 and 5 of its second byte,
 * and changes a complete skb->csum by the difference. Returns 0, or a negative error. */
static __always_inline int uc_write_ecn6(struct __sk_buff *skb, __u32 at, __u8 ecn)
{
	uc_word *word = uc_ip_header(skb, at, sizeof(*word));
	__u32 old, new;

	if (!word)
		return -1;
	old = *word;
	new = (old & ~bpf_htonl(UC_ECN_MASK << 20)) | bpf_htonl((__u32)ecn << 20);
	*word = new;
	/* new - old in ones' complement; refused where the skb has no complete sum */
	bpf_csum_update(skb, new + (__u32)~old + (new > old));
	return 0;
}

/* Writes a word of the TCP header and the checksum. In a complete skb->csum both changes cancel.
 * Returns 0, or a negative error. */
static __always_inline int uc_write_tcp(struct __sk_buff *skb, const struct uc_frame *frame,
					__u32 offset, __be32 old, __be32 new)
{
	__u32 word_at = frame->tcp + offset;
	void *start;

	if (bpf_l4_csum_replace(skb, frame->tcp + offsetof(struct tcphdr, check), old, new, 4))
		return -1;
	start = (void *)(long)skb->data;
	if (word_at > UC_DIRECT_MAX || start + word_at + 4 > (void *)(long)skb->data_end)
		return bpf_skb_store_bytes(skb, word_at, &new, 4, 0);
	*(uc_word *)(start + word_at) = new;
	return 0;
}

/* Moves a bit of UC_OPT_* to the bit of an option's kind, without a branch for the verifier. */
#define UC_KIND_BIT(removed, option, kind) ((__u64)((removed) & (option)) / (option) << (kind))

/* Returns which option kinds are those of `removed`, UC_OPT_*: bit n for kind n. */
static __always_inline __u64 uc_kinds_of(__u8 removed)
{
	return UC_KIND_BIT(removed, UC_OPT_WSCALE, UC_KIND_WSCALE) |
	       UC_KIND_BIT(removed, UC_OPT_SACK, UC_KIND_SACK_PERMITTED) |
	       UC_KIND_BIT(removed, UC_OPT_TIMESTAMPS, UC_KIND_TIMESTAMPS) |
	       UC_KIND_BIT(removed, UC_OPT_MPTCP, UC_KIND_MPTCP);
}

/* Returns which bytes of a SYN's options belong to options of these kinds, bit n for byte n. Ends
 * where uc_parse_options() ends: at an option that contradicts its length. */
__attribute__((noinline)) __u64 uc_find_options(struct __sk_buff *skb, __u32 at, __u32 bytes,
						__u64 kinds)
{
	__u64 found = 0;
	__u32 offset = 0;

	for (int i = 0; i < UC_OPTIONS_MAX; i++) {
		__u8 option[2] = {};

		if (offset >= bytes || bpf_skb_load_bytes(skb, at + offset, option, 1) ||
		    option[0] == UC_KIND_END)
			break;
		if (option[0] == UC_KIND_NOP) {
			offset++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, at + offset, option, 2) || option[1] < 2 ||
		    offset + option[1] > bytes)
			break;
		/* without a branch: the verifier would follow both ways in each round */
		found |= (kinds >> (option[0] & 63) & (option[0] < 64)) *
			 (((1ULL << (option[1] & 63)) - 1) << (offset & 63));
		offset += option[1];
	}
	return found;
}

/* Writes NOPs over the options of `removed`, UC_OPT_*, of a SYN or SYN-ACK. Returns 0, or a
 * negative error. */
static __always_inline int uc_remove_options(struct __sk_buff *skb, const struct uc_frame *frame,
					     __u8 removed)
{
	__u32 options_at = frame->tcp + UC_TCP_HEADER;
	__u64 found = uc_find_options(skb, options_at, frame->header_bytes - UC_TCP_HEADER,
				      uc_kinds_of(removed));

	for (__u32 word_at = 0; word_at < UC_OPTIONS_MAX; word_at += 4, found >>= 4) {
		__u8 old[4], new[4];

		if (!(found & 15))
			continue;
		if (bpf_skb_load_bytes(skb, options_at + word_at, old, 4))
			return -1;
		for (int i = 0; i < 4; i++)
			new[i] = found >> i & 1 ? UC_KIND_NOP : old[i];
		if (bpf_l4_csum_replace(skb, frame->tcp + offsetof(struct tcphdr, check),
					*(__u32 *)old, *(__u32 *)new, 4) ||
		    bpf_skb_store_bytes(skb, options_at + word_at, new, 4, 0))
			return -1;
	}
	return 0;
}

/* Removes offers from a SYN or SYN-ACK (uc_edit.removed). Returns 0, or a negative error. */
static __always_inline int uc_remove_offers(struct __sk_buff *skb, const struct uc_frame *frame,
					    __u8 removed)
{
	__be32 old;

	if (removed & ~UC_OPT_AE && uc_remove_options(skb, frame, removed))
		return -1;
	if (!(removed & UC_OPT_AE))
		return 0;
	if (bpf_skb_load_bytes(skb, frame->tcp + UC_FLAGS_AT, &old, sizeof(old)))
		return -1;
	return uc_write_tcp(skb, frame, UC_FLAGS_AT, old, old & ~bpf_htonl(1 << 24));
}

/* Returns the word of the TCP header with these flags and this window. */
static __always_inline __u32 uc_flags_word(const struct uc_frame *frame, __u8 flags, __u16 window)
{
	return (__u32)frame->header_word << 24 | (__u32)flags << 16 | window;
}

/* Writes the edit into the packet, only what differs. Returns 0, or a negative error. */
static __always_inline int uc_write(struct __sk_buff *skb, const struct uc_frame *frame,
				    const struct uc_segment *segment, const struct uc_edit *edit)
{
	__u32 old = uc_flags_word(frame, segment->flags, segment->window);
	__u32 new = uc_flags_word(frame, edit->flags, edit->window);

	if (edit->ecn != segment->ecn && (frame->ipv6 ? uc_write_ecn6(skb, frame->ip, edit->ecn)
						      : uc_write_ecn4(skb, frame->ip, edit->ecn)))
		return -1;
	return old == new ? 0
			  : uc_write_tcp(skb, frame, UC_FLAGS_AT, bpf_htonl(old), bpf_htonl(new));
}

#endif
