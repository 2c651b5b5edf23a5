/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract with platforms, first half: what they parse out of a packet. All numbers are in host
 * byte order.
 *
 * A GSO super-segment is one uc_segment; wire_payload_bytes is the payload of its segments on the
 * wire.
 */
#ifndef UC_SEGMENT_H
#define UC_SEGMENT_H

#include <linux/stddef.h>
#include <linux/types.h>

/* TCP flags as byte 13 of the header carries them (RFC 9293 §3.1, RFC 3168 §6.1). */
#define UC_FIN 0x01
#define UC_SYN 0x02
#define UC_RST 0x04
#define UC_PSH 0x08
#define UC_ACK 0x10
#define UC_URG 0x20
#define UC_ECE 0x40
#define UC_CWR 0x80

/* ECN codepoints of the IP header (RFC 3168 §5). */
#define UC_NOT_ECT 0
#define UC_ECT1    1
#define UC_ECT0    2
#define UC_CE      3

/* Options and header bits that the core uses; all but UC_OPT_AE are parsed in SYN and SYN-ACK only.
 * Of a later segment to the guest, UC_OPT_SACK says that its blocks report data behind a hole
 * (sack.h). */
#define UC_OPT_MSS        0x01
#define UC_OPT_WSCALE     0x02
#define UC_OPT_SACK       0x04
#define UC_OPT_TIMESTAMPS 0x08
#define UC_OPT_SIGNED     0x10 /* MD5 (RFC 2385) or AO (RFC 5925) */
#define UC_OPT_MPTCP      0x20
#define UC_OPT_AE         0x40 /* the accurate-ECN bit beside CWR (RFC 9768), once called NS */
#define UC_OPT_BROKEN     0x80 /* SYN-ACK to the guest: some options could not be read */

/* The largest window scale; a larger one counts as this (RFC 7323 §2.3). */
#define UC_WSCALE_MAX 14
/* The largest possible receive window, in bytes (RFC 7323 §2.3). */
#define UC_WINDOW_MAX (1 << 30)

enum uc_direction { UC_FROM_GUEST, UC_TO_GUEST };

struct uc_segment {
	__u32 seq;
	__u32 ack;
	__u32 payload_bytes;      /* of the whole super-segment */
	__u16 wire_payload_bytes; /* of one segment on the wire: gso_size, or payload_bytes */
	__u16 window;             /* the header's field, unscaled */
	__u16 mss_bytes;          /* with UC_OPT_MSS, in SYN and SYN-ACK: the option; with
				   * UC_OPT_SACK, in later segments: uc_sack_mark() */
	__u8 wscale;              /* option, valid with UC_OPT_WSCALE */
	__u8 options;             /* UC_OPT_* */
	__u8 flags;               /* UC_FIN … UC_CWR */
	__u8 ecn;                 /* UC_NOT_ECT … UC_CE */
	__u8 direction;           /* enum uc_direction */
	__u8 blind;               /* 1: the port sees no answer to it (hooks.h) */
};

/* Returns whether a SYN to the guest offers AccECN (RFC 9768 §3.1.1). */
static __always_inline __u8 uc_offers_accurate(const struct uc_segment *segment)
{
	return segment->direction == UC_TO_GUEST && segment->options & UC_OPT_AE &&
	       (segment->flags & ~(UC_PSH | UC_URG)) == (UC_SYN | UC_ECE | UC_CWR);
}

/* Returns whether sequence number `a` lies before `b`. They wrap (RFC 9293 §3.4), so the two must
 * be less than 2 GiB apart. */
static __always_inline __u8 uc_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline __u8 uc_after(__u32 a, __u32 b)
{
	return uc_before(b, a);
}

/* Returns the sequence number after the segment; SYN and FIN take one each. */
static __always_inline __u32 uc_segment_end(const struct uc_segment *segment)
{
	return segment->seq + segment->payload_bytes + !!(segment->flags & UC_SYN) +
	       !!(segment->flags & UC_FIN);
}

#endif
