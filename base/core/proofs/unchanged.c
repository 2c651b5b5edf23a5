/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Segments that anybody can send (invariant "out-of-window segments"): one of the peer that the
 * guest would not accept changes no byte of the flow; a SYN into a flow of both ends, only the room
 * in which it is stored; an answer to another SYN, nothing. Nor does a segment that the guard
 * drops.
 */
#ifdef PROOF_STRANGER
/* The core's rules are hidden here, and acceptable.c proves them: whatever they are, a segment that
 * they refuse changes nothing. */
#define uc_is_acceptable uc_is_acceptable_by_rule
#define uc_resets        uc_resets_by_rule
#include "acceptable.h"
#undef uc_is_acceptable
#undef uc_resets
#define uc_is_acceptable(flow, segment) 0
#define uc_resets(flow, segment)        0
#endif
#include "state.h"

/* The flow's annex before the call. */
static struct uc_annex annex_before;

/* States that no byte of the flow or its annex differs but `size` bytes from `kept` on. */
static void prove_bytes(const struct uc_flow *flow, const struct uc_flow *before, const void *kept,
			unsigned int size)
{
	const __u8 *now, *was;
	unsigned int i = any_word(), bytes;

	if (any_byte()) {
		now = (const __u8 *)flow;
		was = (const __u8 *)before;
		bytes = sizeof(*flow);
	} else {
		now = (const __u8 *)&annex;
		was = (const __u8 *)&annex_before;
		bytes = sizeof(annex);
	}
	assume(i < bytes);
	for (unsigned int at = 0; at < size; at++)
		assume(now + i != (const __u8 *)kept + at);
	prove("no other byte of the flow changes", now[i] == was[i]);
}

#ifdef PROOF_SYN
/* A SYN into a flow that it leaves as it is, and a SYN-ACK that answers no stored one. */
static void call(struct uc_flow *flow, struct uc_flow *before, struct uc_segment *segment,
		 __u64 now_ns, struct uc_edit *edit)
{
	unsigned int bits = __builtin_offsetof(struct uc_flow, bits);
	const void *kept = uc_kept(flow, &annex);
	__u32 asked = UC_FLOW_GUEST_ASKED | UC_FLOW_PEER_ASKED;
	struct uc_policy policy = any_policy();

	if (any_byte()) {
		assume(uc_is_syn(segment) && uc_stays(flow, segment, now_ns));
		uc_open(flow, &annex, &policy, segment, now_ns, edit);
		prove("no other bit of the flow changes", !((flow->bits ^ before->bits) & ~asked));
		before->bits = flow->bits;
		prove_bytes(flow, before, kept, sizeof(struct uc_kept_syn));
	} else if (uc_reopen(flow, &annex, &policy, segment, now_ns, edit) == UC_NO_HANDSHAKE) {
		prove_bytes(flow, before, flow, 0);
	}
}
#elif defined(PROOF_STRANGER)
/* A segment of the peer that the guest does not accept. */
static void call(struct uc_flow *flow, struct uc_flow *before, struct uc_segment *segment,
		 __u64 now_ns, struct uc_edit *edit)
{
	__u8 handshake = segment->flags & UC_SYN && !(segment->flags & UC_RST);

	assume(segment->direction == UC_TO_GUEST);
	assume(!handshake || !(segment->flags & UC_ACK) || !uc_is_answered_by(flow, segment));
	uc_translate(flow, &annex, segment, now_ns, edit);
	prove_bytes(flow, before, flow, 0);
}
#else
/* A segment that is dropped. */
static void call(struct uc_flow *flow, struct uc_flow *before, struct uc_segment *segment,
		 __u64 now_ns, struct uc_edit *edit)
{
	enum uc_reason reason = uc_translate(flow, &annex, segment, now_ns, edit);

	assume(uc_drops(reason));
	prove_bytes(flow, before, flow, 0);
}
#endif

int main(void)
{
	struct uc_flow flow = sound_flow(), before = flow;
	struct uc_segment segment = any_segment();
	struct uc_edit edit;

	annex_before = annex;
	call(&flow, &before, &segment, any_long(), &edit);
	return 0;
}
