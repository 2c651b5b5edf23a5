/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Timeouts that were spurious: the ACKs were late, not the data lost. A guest finds that out and
 * takes its reduction back; its shadow follows, or the law's window would stay small.
 *
 * The evidence is F-RTO's (RFC 5682), sequence numbers alone: an ACK after the timeout covers data
 * that the guest has not retransmitted, so the original has arrived. ACKs are the peer's, and what
 * was retransmitted is what the port has seen. A guest's time stamps would tell more (RFC 3522),
 * but a guest can feign them.
 *
 * In profile `rfc` this is RFC 5682 §2.1 to the letter: the second ACK decides, after the first one
 * has let out two segments of new data, and a timeout in the repair of another is not judged.
 * Otherwise it is Linux's way (tcp_process_loss() of 6.18): with SACK the first ACK may decide, and
 * further timeouts of the same data leave the question open.
 *
 * The response is RFC 4015's: the windows from before the timeout return, at most once for each.
 * They do not if ECE has come since, which asks for a reduction anyway. A timeout is judged only if
 * it comes outside any other reduction, and if no ACK before it has repeated a number, or with SACK
 * reported data behind a hole. A duplicate ACK after it ends the judging: data beyond a hole has
 * arrived. So a guest that feigns a timeout ends where it began. A flow whose window is its group's
 * answer takes no part: the group has divided what it gave up.
 *
 * Bound: the question is open until SND.UNA reaches `recover` at most, which under a guard no
 * further timeout moves (laws/reno_linux.h).
 */
#ifndef UC_UNDO_H
#define UC_UNDO_H

#include "flow.h"
#include "minmax.h"

/* RFC 5682 §2.1 step 2b: the new segments that may probe the path. */
#define UC_UNDO_PROBES 2

/* What returns if the timeout was spurious. It takes the place of struct uc_prr (flow.h), which is
 * not used after a timeout. */
struct uc_undo {
	__u32 cwnd;     /* cwnd before the timeout; 0 in profile `rfc`: ECE has come since, nothing
			 * returns */
	__u32 ssthresh; /* that before the timeout; 0: the timeout is not judged, or not any more */
	__u32 end;      /* the end of what was retransmitted since the timeout */
} __attribute__((may_alias));

_Static_assert(sizeof(struct uc_undo) == sizeof(struct uc_prr), "the two share their place");

static __always_inline struct uc_undo *uc_undo(struct uc_flow *flow)
{
	return (struct uc_undo *)&flow->reno.prr;
}

/* Returns whether the flow is judged by RFC 5682 to the letter. */
static __always_inline __u8 uc_undo_is_literal(const struct uc_flow *flow)
{
	return flow->policy.profile == UC_PROFILE_RFC && !uc_law_has(flow->policy.law, UC_BYTES);
}

/* Returns 1 while it is undecided whether the last timeout was spurious. */
static __always_inline __u8 uc_undo_is_open(const struct uc_flow *flow)
{
	const struct uc_undo *undo = (const struct uc_undo *)&flow->reno.prr;

	return flow->ca == UC_CA_LOSS && undo->ssthresh;
}

/* Returns whether an ACK since the timeout has covered all that was retransmitted, and the next one
 * decides. */
static __always_inline __u8 uc_undo_probes(const struct uc_flow *flow)
{
	const struct uc_undo *undo = (const struct uc_undo *)&flow->reno.prr;

	return uc_undo_is_open(flow) && !uc_before(flow->snd_una, undo->end);
}

/* Stops judging the last timeout: it counts as caused by a loss. */
static __always_inline void uc_undo_close(struct uc_flow *flow)
{
	struct uc_undo *undo = uc_undo(flow);

	if (uc_undo_is_open(flow)) {
		undo->cwnd = 0;
		undo->ssthresh = 0;
	}
}

/*
 * Stops judging the timeout at an ACK that shows no spurious one. If the guest was probing (RFC
 * 5682 §2.1 step 3a), it now retransmits all that it has sent, the probes too, which lie beyond
 * `recover`.
 */
static __always_inline void uc_undo_refute(struct uc_flow *flow)
{
	struct uc_undo *undo = uc_undo(flow);

	undo->cwnd = uc_undo_is_literal(flow) && uc_undo_probes(flow);
	undo->ssthresh = 0;
	if (undo->cwnd)
		undo->end = flow->snd_nxt;
}

/* Returns whether a first retransmission from `seq` on is one of the guest's retransmissions that
 * follow uc_undo_refute(). */
static __always_inline __u8 uc_undo_repairs(const struct uc_flow *flow, __u32 seq)
{
	const struct uc_undo *undo = (const struct uc_undo *)&flow->reno.prr;

	return uc_undo_is_literal(flow) && flow->ca == UC_CA_OPEN && undo->cwnd &&
	       !undo->ssthresh && !uc_before(seq, flow->resent_end) && uc_before(seq, undo->end);
}

/* Returns whether a timeout that begins now is to be judged. */
static __always_inline __u8 uc_undo_may_open(const struct uc_flow *flow,
					     const struct uc_annex *annex)
{
	__u8 guarded = !!uc_guard_segments(&flow->policy);

	/* its window is a group's answer */
	if (uc_is_coupled(flow) && annex->coupled.given_bytes)
		return 0;
	/* a guest with SACK may have retransmitted anything in the recovery before */
	if (uc_undo_is_literal(flow) && !guarded)
		return flow->ca != UC_CA_LOSS &&
		       !(flow->bits & UC_FLOW_SACK && flow->ca == UC_CA_RECOVERY);
	return flow->ca == UC_CA_OPEN && !flow->repeated;
}

/* Begins to judge a timeout, with the windows that may return; ssthresh 0: none may. Call it before
 * the timeout changes `ca`. */
static __always_inline void uc_undo_open(struct uc_flow *flow, struct uc_annex *annex, __u32 cwnd,
					 __u32 ssthresh)
{
	struct uc_undo *undo = uc_undo(flow);

	if (uc_undo_may_open(flow, annex)) {
		undo->cwnd = cwnd;
		undo->ssthresh = ssthresh;
		undo->end = flow->resent_end;
	} else if (flow->ca != UC_CA_LOSS || uc_undo_is_literal(flow)) {
		undo->cwnd = 0;
		undo->ssthresh = 0;
	}
}

/* Takes in a retransmission that ends at `end`. */
static __always_inline void uc_undo_resent(struct uc_flow *flow, __u32 end)
{
	struct uc_undo *undo = uc_undo(flow);

	if (uc_undo_is_open(flow) && uc_after(end, undo->end))
		undo->end = end;
}

/*
 * Takes in an ACK that has moved SND.UNA by acked_bytes. Returns whether it shows that the timeout
 * was spurious; then the caller responds, and leaves UC_CA_LOSS.
 */
static __always_inline __u8 uc_undo_judge(struct uc_flow *flow, __u32 acked_bytes, __u8 ece)
{
	struct uc_undo *undo = uc_undo(flow);
	__u8 literal = uc_undo_is_literal(flow);
	__u32 before = flow->snd_una - acked_bytes;

	if (literal && flow->ca == UC_CA_OPEN && !uc_before(flow->snd_una, undo->end))
		undo->cwnd = 0; /* circular comparisons stay right */
	if (!uc_undo_is_open(flow))
		return 0;
	if (literal ? !acked_bytes : (!acked_bytes && flow->repeated) || ece) {
		uc_undo_refute(flow);
		return 0;
	}
	if (ece)
		undo->cwnd = 0;
	if (!acked_bytes)
		return 0;
	if (!uc_before(before, undo->end))
		return 1;
	if (!literal && flow->bits & UC_FLOW_SACK && uc_after(flow->snd_una, undo->end))
		return 1;
	/* `recover` is the last byte in profile `rfc`, otherwise the byte behind it */
	if (uc_after(flow->snd_una + !literal, flow->reno.recover))
		uc_undo_close(flow);
	return 0;
}

/* Returns the minimum window in bytes of a law that counts bytes, while the guest probes: as far as
 * RFC 5682 §2.1 step 2b lets it send, under a guard at most the window from before the timeout. 0:
 * it does not probe. */
static __always_inline __u32 uc_undo_probe_bytes(const struct uc_flow *flow)
{
	const struct uc_undo *undo = (const struct uc_undo *)&flow->reno.prr;
	__u32 bytes = uc_flight_bytes(flow) + UC_UNDO_PROBES * flow->mss_bytes;

	if (!uc_undo_probes(flow))
		return 0;
	return uc_guard_segments(&flow->policy) ? uc_min(bytes, undo->cwnd) : bytes;
}

#endif
