/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract with platforms, second half: what they write. An edit holds the new values of the
 * only three fields that the light path may change, and which offers a SYN or SYN-ACK loses
 * (downgrade.h; invariant "edit set"). It has no field for sequence numbers, ACK numbers or
 * payload, so these can't be changed.
 */
#ifndef UC_EDIT_H
#define UC_EDIT_H

#include "segment.h"

struct uc_edit {
	__u16 window; /* the header's field, unscaled */
	__u8 flags;   /* only ECE and CWR may differ from the segment's */
	__u8 ecn;     /* codepoint of the IP header */
	__u8 removed; /* UC_OPT_AE: clear the bit; any other: write NOPs over the options */
	__u8 pad;
};

/* Returns the edit that changes nothing. */
static __always_inline struct uc_edit uc_edit_none(const struct uc_segment *segment)
{
	struct uc_edit edit = {
		.window = segment->window,
		.flags = segment->flags,
		.ecn = segment->ecn,
	};

	return edit;
}

#endif
