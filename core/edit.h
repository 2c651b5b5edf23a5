/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract, second half: what the home is to write. An edit holds the new values of the only
 * three fields that the light path may change; sequence numbers, ACK numbers and payload have no
 * place here and so can't be changed.
 */
#ifndef UC_EDIT_H
#define UC_EDIT_H

#include "segment.h"

struct uc_edit {
	__u16 window; /* the header's field, unscaled */
	__u8 flags;   /* only ECE and CWR may differ from the segment's */
	__u8 ecn;     /* codepoint of the IP header */
};

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
