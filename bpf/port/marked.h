/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Marked data of flows that are not in the table, which core/unanswered.h decides about. Two CPUs
 * may write an entry at once, or one whose element the kernel has just given to another flow:
 * entries have no lock, and only UC_SILENT_MARKS such accidents could make a flow's marked data be
 * dropped wrongly.
 */
#ifndef UC_MARKED_H
#define UC_MARKED_H

#include "rules.h"

/* Updates the entry of a flow in `marked`, if there is one, from a segment of the guest: a SYN or
 * SYN-ACK, or any other segment of an unknown flow. */
static __always_inline void uc_hear_guest(const struct uc_key *key,
					  const struct uc_segment *segment, __u64 now_ns)
{
	struct uc_marked *known = bpf_map_lookup_elem(&marked, key);

	if (known)
		uc_hear_segment(known, segment, now_ns);
}

/* Decides about the marked segment in `pending`. Returns UC_NO_HANDSHAKE or UC_UNANSWERED. `first`:
 * set to 1 for the first data of its flow that is dropped. */
static __always_inline enum uc_reason uc_answer_for(struct __sk_buff *skb, struct uc_pending *now,
						    __u8 *first)
{
	struct uc_marked *known = bpf_map_lookup_elem(&marked, &now->key);
	const struct uc_opening *how = uc_opening_now();
	const struct uc_marked nothing = {};

	if (!uc_is_marked_data(&now->segment))
		return UC_NO_HANDSHAKE;
	if (!known) {
		bpf_map_update_elem(&marked, &now->key, &nothing, BPF_ANY);
		return UC_NO_HANDSHAKE;
	}
	if (!uc_is_unanswered(known, &now->segment, now->now_ns) || !how)
		return UC_NO_HANDSHAKE;
	uc_find_rule(skb);
	if (!uc_drops_unanswered(known, &how->policy, &now->segment))
		return UC_NO_HANDSHAKE;
	*first = known->drops == 1;
	return UC_UNANSWERED;
}

#endif
