/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The newest ACK number, window and timestamps that a guest has sent in a flow: what user space
 * retransmits carries them. Segments without data are not handed over, so they are read here.
 */
#ifndef UC_HOLD_NEWEST_H
#define UC_HOLD_NEWEST_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../packet.h"
#include "layout.h"

/* NOP, NOP, and kind and length of the timestamps: the layout that RFC 7323 appendix A recommends,
 * and most senders have. */
#define UC_HOLD_USUAL_OPTIONS    0x0101080aU
#define UC_HOLD_USUAL_BYTES      12
#define UC_HOLD_TIMESTAMPS_BYTES 10

/* Returns the value of the timestamps among the options, `bytes` long at offset `at`; 0: there are
 * none. A global function, for the verifier (see uc_parse_options()). */
__attribute__((noinline)) __u64 uc_hold_find_timestamps(struct __sk_buff *skb, __u32 at,
							__u32 bytes)
{
	__u32 offset = 0;

	for (int i = 0; i < UC_OPTIONS_MAX; i++) {
		__u8 option[2] = {};
		__u64 value = 0;

		if (offset >= bytes || bpf_skb_load_bytes(skb, at + offset, option, 1) ||
		    option[0] == UC_KIND_END)
			break;
		if (option[0] == UC_KIND_NOP) {
			offset++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, at + offset, option, 2) || option[1] < 2)
			break;
		if (option[0] == UC_KIND_TIMESTAMPS && option[1] == UC_HOLD_TIMESTAMPS_BYTES &&
		    offset + UC_HOLD_TIMESTAMPS_BYTES <= bytes &&
		    !bpf_skb_load_bytes(skb, at + offset + 2, &value, sizeof(value)))
			return value;
		offset += option[1];
	}
	return 0;
}

/* Returns the value of a segment's timestamps, as in the header; 0: it has none. */
static __always_inline __u64 uc_hold_timestamps(struct __sk_buff *skb, const struct uc_frame *frame)
{
	__u32 options_at = frame->tcp + UC_TCP_HEADER, bytes = frame->header_bytes - UC_TCP_HEADER;
	__be32 usual[UC_HOLD_USUAL_BYTES / 4];
	__u64 value;

	if (!bytes)
		return 0;
	if (bytes >= UC_HOLD_USUAL_BYTES && !uc_read(skb, options_at, usual, sizeof(usual)) &&
	    usual[0] == bpf_htonl(UC_HOLD_USUAL_OPTIONS)) {
		__builtin_memcpy(&value, usual + 1, sizeof(value));
		return value;
	}
	return uc_hold_find_timestamps(skb, options_at, bytes);
}

/* Stores the fields of a segment of the guest that is no SYN. */
static __always_inline void uc_hold_note(struct __sk_buff *skb, struct uc_hold_flow *flow,
					 const struct uc_segment *segment,
					 const struct uc_frame *frame)
{
	if ((segment->flags & (UC_ACK | UC_SYN | UC_RST)) != UC_ACK)
		return;
	*(volatile __u64 *)&flow->timestamps = uc_hold_timestamps(skb, frame);
	*(volatile __u64 *)&flow->numbers =
		(__u64)segment->ack << 32 | (__u32)segment->window << 16 | UC_HOLD_NOTED;
}

#endif
