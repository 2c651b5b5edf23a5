/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Marks on the peer's data of a flow that the port does not know. It may be one that the table has
 * forgotten: the peer sends ECT, because the port has agreed to ECN in its guest's name, and nobody
 * would tell it of a mark. Then marked data is dropped, as a queue does with data of a flow without
 * ECN (RFC 6040 §4.2): the peer detects the loss. Or the guest has negotiated ECN itself, and its
 * own TCP answers. So each flow is tested: its first marks pass, and the guest's ACKs of them show
 * ECE or not. UC_SILENT_MARKS without it, and no sign of ECN in any segment of the guest, end in
 * drops.
 *
 * Whatever is unsure passes: a first mark, marked data far from the guest's last ACK, and all of a
 * guest whose ACKs the port does not see. One silent mark proves nothing: the mark may have been
 * lost behind the port, or AccECN's counter be 0 after it (RFC 9768). Data passes the second time,
 * so that a connection lives on whose path marks everything.
 */
#ifndef UC_UNANSWERED_H
#define UC_UNANSWERED_H

#include "policy.h"
#include "segment.h"
#include "since.h"

/* How many marks a guest leaves unanswered before marked data of its flow is dropped. */
#define UC_SILENT_MARKS 3
/* How far ahead of the guest's last ACK marked data may begin that tests the guest. A stranger off
 * the path would have to guess a number that near. */
#define UC_SILENT_REACH_BYTES (1U << 22)
/* How long a flow's marked data is dropped before the flow is tested again. */
#define UC_SILENT_NS 600000000000ULL

/* What is known of the guest's end of a flow. */
enum uc_hearing {
	UC_HEARING_NEW,     /* no ACK of the guest was seen since the first mark */
	UC_HEARING_TESTED,  /* `ack` is valid */
	UC_HEARING_AWAITED, /* as TESTED, and an ACK of marked data that ends at `end` is due */
	UC_HEARING_SPEAKS,  /* the guest has negotiated ECN */
	UC_HEARING_DEAF,    /* the guest has not negotiated ECN: it answers no mark */
};

/* A flow that the port does not know and whose data came marked. All zero: nothing is known. */
struct uc_marked {
	__u64 deaf_ns; /* when `hearing` became UC_HEARING_DEAF */
	__u32 ack;     /* the guest's last ACK */
	__u32 end;     /* end of the last marked data that tested the guest, or that was dropped */
	__u8 hearing;  /* enum uc_hearing */
	__u8 silent;   /* number of marks without an answer */
	__u8 drops;    /* marked segments dropped since UC_HEARING_DEAF; 255: 255 or more */
	__u8 hole;     /* 1: the guest has not acknowledged the marked data that was dropped last */
	__u8 pad[4];
};

/* Returns whether a segment carries data with a mark that its receiver must answer. */
static __always_inline __u8 uc_is_marked_data(const struct uc_segment *segment)
{
	return segment->ecn == UC_CE && segment->payload_bytes &&
	       !(segment->flags & (UC_SYN | UC_RST));
}

/* Returns whether a segment shows that its sender has negotiated ECN, classic or accurate. */
static __always_inline __u8 uc_shows_ecn(const struct uc_segment *segment)
{
	return segment->flags & (UC_ECE | UC_CWR) || segment->ecn != UC_NOT_ECT ||
	       segment->options & UC_OPT_AE;
}

/* Updates the record from a guest's ACK that shows no sign of ECN. */
static __always_inline void uc_hear_ack(struct uc_marked *marked, __u32 ack, __u64 now_ns)
{
	__u8 covers = !uc_before(ack, marked->end);

	marked->ack = ack;
	if (marked->hearing == UC_HEARING_NEW)
		marked->hearing = UC_HEARING_TESTED;
	if (covers && marked->hearing == UC_HEARING_DEAF)
		marked->hole = 0;
	if (!covers || marked->hearing != UC_HEARING_AWAITED)
		return;
	marked->silent++;
	marked->hearing = UC_HEARING_TESTED;
	if (marked->silent >= UC_SILENT_MARKS) {
		marked->deaf_ns = now_ns;
		marked->hearing = UC_HEARING_DEAF;
	}
}

/* Takes in a segment of the guest. A SYN or SYN-ACK begins another connection, of which nothing is
 * known. */
static __always_inline void uc_hear_segment(struct uc_marked *marked,
					    const struct uc_segment *segment, __u64 now_ns)
{
	const struct uc_marked nothing = {};

	if (segment->flags & UC_RST)
		return;
	if (segment->flags & UC_SYN)
		*marked = nothing;
	else if (uc_shows_ecn(segment))
		marked->hearing = UC_HEARING_SPEAKS;
	else if (segment->flags & UC_ACK)
		uc_hear_ack(marked, segment->ack, now_ns);
}

/* Takes in a segment to the guest for which uc_is_marked_data() holds. Returns whether the guest
 * would leave the mark unanswered. */
static __always_inline __u8 uc_is_unanswered(struct uc_marked *marked,
					     const struct uc_segment *segment, __u64 now_ns)
{
	const struct uc_marked nothing = {};
	__u32 end = uc_segment_end(segment);

	if (marked->hearing == UC_HEARING_DEAF) {
		if (uc_since_ns(now_ns, marked->deaf_ns) < UC_SILENT_NS)
			return !marked->hole || uc_after(end, marked->end);
		*marked = nothing;
	}
	if (marked->hearing == UC_HEARING_TESTED && uc_after(end, marked->ack) &&
	    !uc_after(segment->seq, marked->ack + UC_SILENT_REACH_BYTES)) {
		marked->end = end;
		marked->hearing = UC_HEARING_AWAITED;
	}
	return 0;
}

/* Returns whether a policy drops marked data for which uc_is_unanswered() holds, and records that
 * it does. */
static __always_inline __u8 uc_drops_unanswered(struct uc_marked *marked,
						const struct uc_policy *policy,
						const struct uc_segment *segment)
{
	if (!uc_law_acts(policy->law) || uc_observes(policy) ||
	    policy->modes & UC_MODE_PASS_UNANSWERED)
		return 0;
	marked->end = uc_segment_end(segment);
	marked->hole = 1;
	marked->drops += marked->drops < 255;
	return 1;
}

#endif
