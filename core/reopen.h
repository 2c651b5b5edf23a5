/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A SYN into a flow whose ends have agreed. It may be the first of a new connection, whose old one
 * an end has lost (a crash, a NAT) or closed (RFC 9293 §3.6.1: TIME-WAIT may be cut short); it may
 * be a copy of the one that this connection began with, or forged. Only the end that receives it
 * knows: one that still has the old connection answers with an ACK and goes on (RFC 9293
 * §3.10.7.4, RFC 5961 §4), one that begins the new one answers with a SYN-ACK that acknowledges it.
 *
 * So until that answer the SYN changes nothing in the flow and is only stored. At the answer the
 * flow starts again (handshake.h), as if the SYN had come into an empty entry. Nobody else can
 * cause that: who answers the guest's SYN must know its sequence number, and only the guest
 * answers for itself.
 *
 * The SYN is stored in room that the flow does not use (flow.h): a law with trait UC_FAR leaves the
 * near room, a flow that shares its window the far one, and others the parameters behind the first
 * UC_PARAMETERS_NEAR_BYTES and the annex's index.
 */
#ifndef UC_REOPEN_H
#define UC_REOPEN_H

#include "edit.h"
#include "flow.h"
#include "offer.h"
#include "reason.h"
#include "segment.h"

struct uc_kept_syn {
	__u32 seq;
	__u16 mss_bytes;
	__u16 payload_bytes;
	/* of a SYN of the peer, its window; of a SYN of the guest, whose window is not needed, how
	 * often the guest has sent it */
	__u16 window;
	__u8 options; /* UC_OPT_* */
	/* UC_FEEDBACK_FLAGS where they stand in the flags, wscale << 2, the ECN codepoint */
	__u8 rest;
} __attribute__((may_alias));

/* Offset in struct uc_flow at which flows without an annex store a SYN. */
#define UC_KEPT_AT                                                                                 \
	(__builtin_offsetof(struct uc_flow, policy) +                                              \
	 __builtin_offsetof(struct uc_policy, parameters) + UC_PARAMETERS_NEAR_BYTES)

_Static_assert(sizeof(struct uc_kept_syn) <= UC_NEAR_BYTES &&
		       sizeof(struct uc_kept_syn) <= UC_FAR_BYTES &&
		       UC_KEPT_AT + sizeof(struct uc_kept_syn) == sizeof(struct uc_flow),
	       "a SYN is kept in room that the flow leaves");

static __always_inline struct uc_kept_syn *uc_kept(struct uc_flow *flow, struct uc_annex *annex)
{
	if (uc_law_has(flow->policy.law, UC_FAR))
		return uc_near(flow);
	if (uc_is_coupled(flow))
		return uc_far(annex);
	return (struct uc_kept_syn *)((__u8 *)flow + UC_KEPT_AT);
}

static __always_inline __u32 uc_asked_bit(__u8 from_guest)
{
	return from_guest ? UC_FLOW_GUEST_ASKED : UC_FLOW_PEER_ASKED;
}

/* Stores the fields of a SYN that a flow needs to begin with it later. */
static __always_inline void uc_pack_syn(struct uc_kept_syn *kept, const struct uc_segment *syn)
{
	__u8 wscale = syn->wscale < 15 ? syn->wscale : 15;

	kept->seq = syn->seq;
	kept->mss_bytes = syn->mss_bytes;
	kept->payload_bytes = syn->payload_bytes < 0xffff ? syn->payload_bytes : 0xffff;
	kept->window = syn->window;
	kept->options = syn->options;
	kept->rest = (syn->flags & UC_FEEDBACK_FLAGS) | wscale << 2 | (syn->ecn & 3);
}

/* Adds the options that an earlier SYN with the same sequence number has offered: the other end may
 * answer the earlier one, and its SYN-ACK then contains these options. Another number: adds
 * nothing. */
static __always_inline void uc_add_offers(struct uc_kept_syn *kept,
					  const struct uc_kept_syn *earlier)
{
	if (kept->seq != earlier->seq)
		return;
	if (!(kept->options & UC_OPT_WSCALE))
		kept->rest |= earlier->rest & 15 << 2;
	kept->options |= earlier->options & (UC_OPT_WSCALE | UC_OPT_SACK | UC_OPT_TIMESTAMPS);
}

/* Returns a stored SYN as a segment; fields that are not stored are 0. */
static __always_inline struct uc_segment uc_unpack_syn(const struct uc_kept_syn *kept,
						       enum uc_direction direction)
{
	struct uc_segment syn = {
		.seq = kept->seq,
		.payload_bytes = kept->payload_bytes,
		.wire_payload_bytes = kept->payload_bytes,
		.window = kept->window,
		.mss_bytes = kept->mss_bytes,
		.wscale = kept->rest >> 2 & 15,
		.options = kept->options,
		.flags = UC_SYN | (kept->rest & UC_FEEDBACK_FLAGS),
		.ecn = kept->rest & 3,
		.direction = direction,
	};

	return syn;
}

/* Returns whether a SYN-ACK acknowledges a stored SYN, and of data in it (RFC 7413) any part. */
static __always_inline __u8 uc_acknowledges_syn(const struct uc_kept_syn *kept,
						const struct uc_segment *answer)
{
	return (answer->flags & (UC_SYN | UC_ACK | UC_RST | UC_FIN)) == (UC_SYN | UC_ACK) &&
	       answer->ack - kept->seq - 1 <= kept->payload_bytes;
}

/* Stores the SYN in the flow, replacing any other. Returns how often the guest sent it, 1 to 255;
 * meaningless for the peer's. */
static __always_inline __u16 uc_keep_syn(struct uc_flow *flow, struct uc_annex *annex,
					 const struct uc_segment *syn)
{
	__u8 from_guest = syn->direction == UC_FROM_GUEST;
	struct uc_kept_syn *kept = uc_kept(flow, annex), earlier = *kept;
	__u8 again = flow->bits & uc_asked_bit(from_guest) && kept->seq == syn->seq;
	/* of the guest's, the answer may be to any: one that made an offer was enough */
	__u8 offered = from_guest && again ? kept->rest & UC_FEEDBACK_FLAGS : 0;
	__u16 syns = again ? kept->window + (kept->window < 255) : 1;

	uc_pack_syn(kept, syn);
	if (again)
		uc_add_offers(kept, &earlier);
	kept->rest |= offered;
	if (from_guest)
		kept->window = syns;
	flow->bits &= ~(UC_FLOW_GUEST_ASKED | UC_FLOW_PEER_ASKED);
	flow->bits |= uc_asked_bit(from_guest);
	return syns;
}

/* Returns the SYN that the flow stores. */
static __always_inline struct uc_segment uc_kept_segment(struct uc_flow *flow,
							 struct uc_annex *annex)
{
	return uc_unpack_syn(uc_kept(flow, annex),
			     flow->bits & UC_FLOW_GUEST_ASKED ? UC_FROM_GUEST : UC_TO_GUEST);
}

/*
 * Returns whether this segment answers the SYN that is kept: it acknowledges the SYN, and of data
 * in it (RFC 7413) as much as it likes, and it does not repeat the answer that the flow began with,
 * which a copy of the first SYN causes. A repetition has the same two numbers. Another answer
 * differs in one, also of an end that keeps no state of its answers (SYN cookies).
 */
static __always_inline __u8 uc_answers_kept(struct uc_flow *flow, struct uc_annex *annex,
					    const struct uc_segment *answer)
{
	__u8 from_guest = answer->direction == UC_FROM_GUEST;
	const struct uc_kept_syn *kept = uc_kept(flow, annex);

	if (!(flow->bits & uc_asked_bit(!from_guest)))
		return 0;
	if (!uc_acknowledges_syn(kept, answer))
		return 0;
	if (from_guest)
		return answer->seq + 1 != flow->snd_una || answer->ack != flow->echoed_ack;
	return answer->ack != flow->snd_una || uc_segment_end(answer) != flow->echoed_ack;
}

/* Returns whether the SYN leaves the flow as it is: both ends have the connection, or one end waits
 * for the other's answer to its own SYN. */
static __always_inline __u8 uc_stays(const struct uc_flow *flow, const struct uc_segment *syn,
				     __u64 now_ns)
{
	__u8 from_guest = syn->direction == UC_FROM_GUEST;

	if (!uc_waits(flow, now_ns))
		return uc_is_live(flow, now_ns);
	return flow->stage == (from_guest ? UC_SYN_RECEIVED : UC_SYN_SENT);
}

/*
 * Handles a SYN that leaves the flow as it is (uc_stays()). A SYN of the guest is stored, and
 * offers ECN if `policy` asks for it. A SYN of the peer is stored, unless one of the guest is, and
 * passes. If the host clears the peers' ECN offers, it clears this one too: the SYN may be a copy
 * of the first, and a guest that uses SYN cookies must see both alike.
 */
static __always_inline enum uc_reason uc_syn_into_live(struct uc_flow *flow, struct uc_annex *annex,
						       const struct uc_policy *policy,
						       const struct uc_segment *syn,
						       struct uc_edit *edit)
{
	__u16 syns;

	if (syn->direction == UC_FROM_GUEST) {
		syns = uc_keep_syn(flow, annex, syn);
		if (uc_unwanted(policy, syn) != UC_TRANSLATED)
			return UC_NO_HANDSHAKE;
		uc_edit_syn(policy, syns, syn, edit);
		return UC_TRANSLATED;
	}
	/* a guest that has asked waits for an answer and gives none, and what the network sends is
	 * not to make the host forget its question */
	if (!(flow->bits & UC_FLOW_GUEST_ASKED))
		uc_keep_syn(flow, annex, syn);
	if (!uc_translates_guest_ecn(&flow->policy) || syn->options & UC_OPT_AE)
		return UC_NO_HANDSHAKE;
	uc_clear_feedback(edit);
	edit->ecn = UC_NOT_ECT;
	return UC_TRANSLATED;
}

#endif
