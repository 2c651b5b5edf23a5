/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds what has happened to a flow since its last event: the difference between two readings of
 * its small fields. It reads the core's state and doesn't change it.
 */
#ifndef UC_NEWS_H
#define UC_NEWS_H

#include "../../core/core.h"
#include "layout.h"

/* Parts of a fingerprint: the low 8 bits of two counters, and the other fields whole. */
#define UC_SEEN_CUTS   0x000000ff
#define UC_SEEN_LOSSES 0x0000ff00
#define UC_SEEN_CA     0x00030000
#define UC_SEEN_STAGE  0x000c0000
#define UC_SEEN_SYNS   0x00700000
#define UC_SEEN_CLOSED 0x00800000
#define UC_SEEN_BELOW  0x01000000 /* the advertised window is below the receiver's */
#define UC_SEEN_SHARED 0x02000000 /* law `coupled`: the group has answered */
/* Number of recorded changes of UC_SEEN_BELOW, 0 to 6 (UC_TURNS_NOTED), in units of UC_SEEN_A_TURN;
 * further changes are not recorded. */
#define UC_SEEN_TURNS   0x1c000000
#define UC_SEEN_A_TURN  0x04000000
#define UC_SEEN_VERDICT 0x20000000 /* the test of the path's ECN has ended: UC_TRIAL_VERDICT */
#define UC_SEEN_FLOW    0x80000000 /* set in each fingerprint */
/* In place of a fingerprint: events of this flow are not recorded. */
#define UC_SEEN_BY_NOBODY 0x40000000

/* Maximum number of recorded changes of UC_SEEN_BELOW, times UC_SEEN_A_TURN: a window about as
 * large as the receiver's would cause one at each ACK. */
#define UC_TURNS_NOTED (6 * UC_SEEN_A_TURN)

/* Returns the fingerprint of the present state of a slot's flow. */
static __always_inline __u32 uc_fingerprint(const struct uc_slot *slot,
					    const struct uc_annex *annex)
{
	const struct uc_flow *flow = &slot->flow;
	__u32 seen = slot->seen;
	__u32 now = UC_SEEN_FLOW | (seen & (UC_SEEN_SHARED | UC_SEEN_TURNS)) |
		    (uc_syns(flow) & 7U) << 20 | (__u32)(flow->stage & 3) << 18 |
		    (__u32)(flow->ca & 3) << 16 | (flow->losses & 0xff) << 8 | (flow->cuts & 0xff);

	if (uc_is_closed(flow))
		now |= UC_SEEN_CLOSED;
	if (uc_trial_of(flow) == UC_TRIAL_VERDICT)
		now |= UC_SEEN_VERDICT;
	/* in loss recovery the guest's own TCP sets the window: no event */
	if (flow->ca > UC_CA_CWR || (seen & UC_SEEN_TURNS) >= UC_TURNS_NOTED)
		now |= seen & UC_SEEN_BELOW;
	else if (flow->given_window < flow->peer_window)
		now |= UC_SEEN_BELOW;
	if (uc_is_coupled(flow) && annex->coupled.given_bytes)
		now |= UC_SEEN_SHARED;
	return now;
}

/* Returns whether there are events to record. Called under the flow's lock. */
static __always_inline __u8 uc_has_news(const struct uc_slot *slot, const struct uc_annex *annex)
{
	return slot->seen != UC_SEEN_BY_NOBODY && uc_fingerprint(slot, annex) != slot->seen;
}

/* Facts for events, read under the flow's lock. */
struct uc_facts {
	__u32 cwnd;  /* the shadow's cwnd before the segment, in its own unit; set by the caller */
	__u32 kinds; /* enum uc_event_kind, the first in the highest of four bytes */
	__u32 before_bytes; /* the shadow's window before the event; next field: after it */
	__u32 after_bytes;
	__u32 receiver_bytes;
	__u32 given_bytes;
	__u32 share_bytes;
	__u32 flight_bytes;
	__u32 beyond_bytes;
	__u32 signal; /* number of a cut: uc_cut_signal() */
	__u32 agreed;
	__u32 remote; /* enum uc_remote_news, if the segment has brought any */
	__u8 closing;
	__u8 syns;
	__u8 opens; /* 1: a new flow; the ring's old events are another flow's */
	__u8 stage;
};

/* Appends a kind to the list of kinds. */
static __always_inline __u32 uc_and_kind(__u32 kinds, enum uc_event_kind kind)
{
	return kinds << 8 | kind;
}

/* Returns the event (enum uc_event_kind) by which fingerprint `now` differs from `was`, between the
 * first SYN and the end of the handshake; UC_EVENT_NONE: none. */
static __always_inline __u32 uc_kinds_of_opening(__u32 was, __u32 now)
{
	if (!was || (was & UC_SEEN_STAGE) > (now & UC_SEEN_STAGE) ||
	    (was & UC_SEEN_SYNS) > (now & UC_SEEN_SYNS))
		return UC_EVENT_OPENED;
	if ((was ^ now) & now & UC_SEEN_CLOSED)
		return UC_EVENT_CLOSED;
	return (was ^ now) & UC_SEEN_SYNS ? UC_EVENT_SYN_AGAIN : UC_EVENT_NONE;
}

/* Returns the events of an established flow by which fingerprint `now` differs from `was`, as
 * uc_facts.kinds. A fifth event pushes the first out of the list. */
static __always_inline __u32 uc_kinds_between(__u32 was, __u32 now)
{
	__u32 differs = was ^ now, kinds = UC_EVENT_NONE;
	__u32 ca = now & UC_SEEN_CA;

	if (differs & UC_SEEN_STAGE)
		kinds = uc_and_kind(kinds, UC_EVENT_AGREED);
	if (differs & UC_SEEN_CUTS)
		kinds = uc_and_kind(kinds, UC_EVENT_CUT);
	if (differs & UC_SEEN_LOSSES)
		kinds = uc_and_kind(kinds, ca == UC_CA_LOSS << 16 ? UC_EVENT_TIMEOUT
								  : UC_EVENT_FAST_RETRANSMIT);
	else if ((was & UC_SEEN_CA) > UC_CA_CWR << 16 && ca <= UC_CA_CWR << 16)
		kinds = uc_and_kind(kinds, UC_EVENT_RECOVERED);
	if (differs & UC_SEEN_BELOW)
		kinds = uc_and_kind(kinds,
				    now & UC_SEEN_BELOW ? UC_EVENT_BELOW : UC_EVENT_RETURNED);
	if (differs & UC_SEEN_SHARED)
		kinds = uc_and_kind(kinds, UC_EVENT_SHARED);
	if (differs & now & UC_SEEN_VERDICT)
		kinds = uc_and_kind(kinds, UC_EVENT_WITHOUT_ECN);
	if (differs & now & UC_SEEN_CLOSED)
		kinds = uc_and_kind(kinds, UC_EVENT_CLOSED);
	return kinds;
}

/* Converts a window from the shadow's unit to bytes. */
static __always_inline __u32 uc_shadow_bytes(const struct uc_flow *flow, __u32 window)
{
	__u64 bytes = (__u64)window * (uc_counts_segments(flow) ? flow->mss_bytes : 1);

	return bytes < UC_UNLIMITED_BYTES ? bytes : UC_UNLIMITED_BYTES;
}

/* Returns the target of a reduction in bytes: profile `linux` reduces cwnd to it step by step. */
static __always_inline __u32 uc_aim(const struct uc_flow *flow)
{
	const struct uc_reno *reno = &flow->reno;
	__u8 walks =
		uc_counts_segments(flow) && (flow->ca == UC_CA_CWR || flow->ca == UC_CA_RECOVERY);

	return uc_shadow_bytes(flow, walks ? reno->ssthresh : reno->cwnd);
}

/* Returns the value of UC_EVENT_AGREED. */
static __always_inline __u32 uc_agreed_of(const struct uc_flow *flow)
{
	return flow->mss_bytes | (__u32)uc_wscale(flow) << 16 |
	       (uc_has_feedback(flow) ? UC_AGREED_ECN : 0) |
	       (flow->bits & UC_FLOW_SACK ? UC_AGREED_SACK : 0) |
	       (flow->bits & UC_FLOW_TIMESTAMPS ? UC_AGREED_TIMESTAMPS : 0);
}

/* Collects the events of a flow and their facts, and marks them as recorded. Called under the
 * flow's lock. */
static __always_inline void uc_take_news(struct uc_slot *slot, const struct uc_annex *annex,
					 const struct uc_segment *segment, enum uc_reason reason,
					 struct uc_facts *facts)
{
	const struct uc_flow *flow = &slot->flow;
	__u32 was = slot->seen, now = uc_fingerprint(slot, annex);

	facts->stage = flow->stage;
	if (flow->stage != UC_TRANSLATING) {
		facts->kinds = uc_kinds_of_opening(was, now);
		facts->opens = facts->kinds == UC_EVENT_OPENED;
	} else {
		facts->kinds = uc_kinds_between(was, now);
		facts->opens = 0;
	}
	/* a flow reopened by the answer to its SYN, on the ports of an older one (core/reopen.h) */
	if (flow->stage == UC_TRANSLATING && !was) {
		facts->opens = 1;
		facts->kinds |= UC_EVENT_OPENED << 16;
		facts->stage = segment->direction == UC_TO_GUEST ? UC_SYN_SENT : UC_SYN_RECEIVED;
	}
	if (reason == UC_BEYOND_EDGE)
		facts->kinds = uc_and_kind(facts->kinds, UC_EVENT_GUARDED);
	if ((was ^ now) & (UC_SEEN_STAGE | UC_SEEN_VERDICT | UC_SEEN_CLOSED))
		facts->remote = uc_remote_news_of(flow);
	if (facts->remote == UC_REMOTE_REFUSED)
		facts->kinds = uc_and_kind(facts->kinds, UC_EVENT_WITHOUT_ECN);
	if (facts->opens)
		now &= ~(UC_SEEN_SHARED | UC_SEEN_TURNS);
	else if ((was ^ now) & UC_SEEN_BELOW)
		now += UC_SEEN_A_TURN;
	slot->seen = now;

	facts->before_bytes = uc_shadow_bytes(flow, facts->cwnd);
	facts->after_bytes = uc_aim(flow);
	facts->receiver_bytes = (__u32)flow->peer_window << uc_wscale(flow);
	facts->given_bytes = (__u32)flow->given_window << uc_wscale(flow);
	facts->share_bytes = uc_is_coupled(flow) ? annex->coupled.given_bytes : 0;
	facts->flight_bytes = uc_flight_bytes(flow);
	facts->beyond_bytes = uc_segment_end(segment) - flow->furthest_edge;
	facts->signal = uc_cut_signal(flow);
	facts->agreed = uc_agreed_of(flow);
	facts->closing = (flow->bits & UC_FLOW_FIN_GUEST ? UC_CLOSING_GUEST : 0) |
			 (flow->bits & UC_FLOW_FIN_PEER ? UC_CLOSING_PEER : 0) |
			 (flow->bits & UC_FLOW_RESET ? UC_CLOSING_RESET : 0);
	facts->syns = uc_syns(flow);
}

#endif
