/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Remote ends and paths that break connections with ECN. The host, not the guest, has asked for
 * ECN, so the guest must not lose its connection because of ECN. A flow tests its path for three
 * faults. After a fault it goes on without ECN, and the platform remembers the remote address for
 * an hour (uc_remote below).
 *
 *   refused   A RST answers the SYN with the ECN offer, or only a SYN without the offer gets an
 *             answer. There are other causes: no service listens, or SYNs were lost. So an address
 *             that has agreed to ECN before is not suspected, and an address that also resets a SYN
 *             without the offer is cleared.
 *   lost      ECT data is dropped. A try begins with a retransmission, and ends with the ACK of all
 *             that was in flight then. The path is at fault if every segment had to be
 *             retransmitted in two or more tries in a row: at least ten segments in all, none
 *             delivered between.
 *   marked    Every packet is marked. After eight reductions in a row without an ACK free of ECE,
 *             and while the round-trip time shows no queue, the flow sends a window of data without
 *             ECT. A switch that marks because of congestion drops such data (RFC 7567 §4.2.1, RFC
 *             3168 §5). If the data arrives, the marks did not mean congestion, and the law ignores
 *             ECE from then on.
 *
 * RFC 9000 §13.4.2.1 and RFC 9768 §3.2.2.4 test paths of QUIC and AccECN for such faults.
 */
#ifndef UC_DISTRUST_H
#define UC_DISTRUST_H

#include "flow.h"
#include "track.h"

/* Minimum number of ECT segments lost in a row, over two tries or more, for fault `lost`. */
#define UC_LOST_SEGMENTS 10
/* Reductions in a row without an ACK free of ECE after which the marks are tested. */
#define UC_MARKED_CUTS 8
/* Minimum round-trip time of a path whose marks are tested, in µs. Shorter paths lie within a data
 * centre, where a flow may begin behind a standing queue, which its smallest round-trip time
 * hides. */
#define UC_MARKED_RTT_US 5000
/* Segments without ECT that must arrive to show that the marks do not mean congestion. */
#define UC_MARKED_CONTROLS 2

/* Parts of uc_flow.ecn_lost */
#define UC_LOST_ONCE  0x80 /* a try has ended in which every segment was lost */
#define UC_LOST_DOUBT 0x40 /* a retransmission was lost, too, or no data has arrived yet */
#define UC_LOST_QUIET 0x20 /* no ACK of new data since the last retransmission */
/* A retransmission of this try was no tail loss probe, which can precede a delayed ACK. */
#define UC_LOST_SURE  0x10
#define UC_LOST_COUNT 0x0f /* the number of segments lost in a row, at most 15 */

/* Evidence about the ECN behaviour of a flow's remote address. */
enum uc_remote_news {
	UC_REMOTE_NOTHING,
	UC_REMOTE_AGREED,  /* it agreed to ECN */
	UC_REMOTE_CLEARED, /* it reset a SYN without an ECN offer, too */
	UC_REMOTE_REFUSED,
	UC_REMOTE_LOST,
	UC_REMOTE_MARKED,
};

/* Stops ECT on the flow's data because of fault `why`. */
static __always_inline void uc_distrust(struct uc_flow *flow, enum uc_remote_news why)
{
	flow->policy.modes |= UC_MODE_NO_ECT;
	uc_set_trial(flow, UC_TRIAL_VERDICT, why);
}

/* Returns whether the flow tests its path. Under a guard it does not: a guest could feign losses to
 * get rid of marks. */
static __always_inline __u8 uc_may_distrust(const struct uc_flow *flow)
{
	return uc_sends_ect(flow) && !uc_observes(&flow->policy) &&
	       !(flow->policy.modes & UC_MODE_TRUST_ECN) && !uc_guard_segments(&flow->policy);
}

/* Initializes the tests when the connection opens, unless the handshake ended with a verdict. */
static __always_inline void uc_distrust_open(struct uc_flow *flow)
{
	if (uc_trial_of(flow) == UC_TRIAL_VERDICT && flow->policy.modes & UC_MODE_NO_ECT)
		return;
	uc_set_trial(flow, UC_TRIAL_NONE, 0);
	flow->ecn_lost = 0;
	flow->trial_at = ~0U;
}

/* Ends the tests because ECT data has arrived. Then the flow does not test marks: its path has
 * lost data. */
static __always_inline void uc_trust(struct uc_flow *flow)
{
	uc_set_trial(flow, UC_TRIAL_NONE, 0);
	flow->ecn_lost = 0;
	flow->trial_at = 0;
}

/* Ends a test when the flow moves to other sequence numbers after missed segments (missed.h). */
static __always_inline void uc_distrust_moved(struct uc_flow *flow)
{
	if (uc_trial_of(flow) == UC_TRIAL_VERDICT)
		return;
	if (uc_trial_of(flow) == UC_TRIAL_MARKED)
		flow->policy.modes &= ~UC_MODE_NO_ECT;
	uc_trust(flow);
}

/* Returns whether segments that are not new data may get ECT, under a law that sets ECT on all.
 * They may not after retransmissions were lost, too, or all segments of a try. */
static __always_inline __u8 uc_marks_rest(const struct uc_flow *flow)
{
	return uc_sends_ect(flow) && !(flow->ecn_lost & (UC_LOST_DOUBT | UC_LOST_ONCE));
}

/* Returns whether none of the guest's data is acknowledged yet. Only profile `linux` can tell: its
 * `recover` keeps the initial value until the first reduction. */
static __always_inline __u8 uc_is_first_flight(const struct uc_flow *flow)
{
	return uc_counts_segments(flow) && flow->reno.recover + 2 == flow->snd_una;
}

/* Processes a retransmission of `segments` segments before it leaves. `again`: of the same data as
 * the retransmission before. No try begins if an ACK has shown a hole: the data after it, also ECT,
 * has arrived. */
static __always_inline void uc_distrust_resent(struct uc_flow *flow, enum uc_sent sent, __u8 again,
					       __u32 segments)
{
	__u32 flight = uc_flight_segments(flow), left, lost = flow->ecn_lost;

	if (uc_trial_of(flow) == UC_TRIAL_MARKED)
		uc_set_trial(flow, UC_TRIAL_MARKED, 1);
	if (!uc_may_distrust(flow) || uc_trial_of(flow) == UC_TRIAL_MARKED)
		return;
	if (uc_trial_of(flow) == UC_TRIAL_NONE) {
		if (flow->repeated || flight > UC_TRIAL_COUNT_MAX)
			return;
		flow->trial_at = flow->snd_nxt;
		uc_set_trial(flow, UC_TRIAL_LOST, flight);
		if (uc_is_first_flight(flow))
			lost |= UC_LOST_DOUBT;
	} else if (lost & UC_LOST_QUIET) {
		lost |= UC_LOST_DOUBT;
	}
	if (sent > UC_SENT_AGAIN)
		lost |= UC_LOST_SURE;
	left = uc_trial_count(flow);
	segments = again ? 0 : uc_min(segments, left);
	uc_set_trial(flow, UC_TRIAL_LOST, left - segments);
	segments = uc_min((lost & UC_LOST_COUNT) + segments, UC_LOST_COUNT);
	flow->ecn_lost = (lost & ~UC_LOST_COUNT) | UC_LOST_QUIET | segments;
}

/* Ends a try in which ECT data may have been lost. */
static __always_inline void uc_judge_lost(struct uc_flow *flow)
{
	__u8 once = flow->ecn_lost & UC_LOST_ONCE, count = flow->ecn_lost & UC_LOST_COUNT;

	if (!(flow->ecn_lost & UC_LOST_SURE)) {
		uc_set_trial(flow, UC_TRIAL_NONE, 0);
		flow->ecn_lost = once ? once | count : 0;
		flow->trial_at = once ? flow->snd_nxt : 0;
	} else if (uc_trial_count(flow)) {
		uc_trust(flow);
	} else if (once && count >= UC_LOST_SEGMENTS) {
		uc_distrust(flow, UC_REMOTE_LOST);
	} else {
		uc_set_trial(flow, UC_TRIAL_NONE, 0);
		flow->ecn_lost = UC_LOST_ONCE | count;
		flow->trial_at = flow->snd_nxt;
	}
}

/* Ends the test of marks at an ACK of data without ECT. */
static __always_inline void uc_judge_marks(struct uc_flow *flow)
{
	if (uc_trial_count(flow)) {
		/* data without ECT was lost: congestion. Marks are not tested again. */
		flow->policy.modes &= ~UC_MODE_NO_ECT;
		uc_trust(flow);
		return;
	}
	uc_distrust(flow, UC_REMOTE_MARKED);
}

/* Returns whether the round-trip time shows that no queue marks: the smoothed time is at most an
 * eighth above the smallest. A queue that marks holds at least a seventh of the bandwidth-delay
 * product (RFC 8257 §4.1 and its source, DCTCP §3.3). */
static __always_inline __u8 uc_is_idle_path(const struct uc_flow *flow)
{
	return flow->trial_at >= UC_MARKED_RTT_US &&
	       flow->srtt_us >> 3 <= flow->trial_at + (flow->trial_at >> 3);
}

/* Counts reductions on ECE without an ACK free of ECE between, and at UC_MARKED_CUTS begins the
 * test of marks. */
static __always_inline void uc_count_marks(struct uc_flow *flow, const struct uc_sample *sample,
					   __u8 has_cut)
{
	__u32 cuts = uc_min(uc_trial_count(flow) + 1, UC_TRIAL_COUNT_MAX);

	if (!sample->marked)
		uc_set_trial(flow, UC_TRIAL_NONE, 0);
	if (!sample->marked || !has_cut || !uc_may_distrust(flow))
		return;
	uc_set_trial(flow, UC_TRIAL_NONE, cuts);
	if (cuts >= UC_MARKED_CUTS && !flow->ecn_lost && uc_is_idle_path(flow)) {
		uc_set_trial(flow, UC_TRIAL_MARKED, 0);
		flow->policy.modes |= UC_MODE_NO_ECT;
		flow->trial_at = flow->snd_nxt;
	}
}

/* Processes an ACK without new data during a test. An ACK that shows a hole shows that ECT data
 * after the hole has arrived, unless what has arrived may be a retransmission. */
static __always_inline void uc_distrust_repeated(struct uc_flow *flow)
{
	__u8 first = uc_trial_of(flow) == UC_TRIAL_LOST &&
		     uc_trial_count(flow) + 1 >= uc_flight_segments(flow) &&
		     flow->bits & UC_FLOW_RESENT;

	if (flow->repeated && (first || (uc_trial_of(flow) == UC_TRIAL_NONE && flow->ecn_lost)))
		uc_trust(flow);
}

/* Processes an ACK of new data, after the law. `has_cut`: the law has reduced its window on ECE. */
static __always_inline void uc_distrust_acked(struct uc_flow *flow, const struct uc_sample *sample,
					      __u8 has_cut)
{
	__u32 controls = UC_MARKED_CONTROLS * flow->mss_bytes;

	switch (uc_trial_of(flow)) {
	case UC_TRIAL_NONE:
		/* data sent as ECT since the last try has arrived */
		if (flow->ecn_lost && uc_after(flow->snd_una, flow->trial_at))
			uc_trust(flow);
		uc_count_marks(flow, sample, has_cut);
		break;
	case UC_TRIAL_LOST:
		flow->ecn_lost &= ~UC_LOST_QUIET;
		if (!uc_before(flow->snd_una, flow->trial_at))
			uc_judge_lost(flow);
		break;
	case UC_TRIAL_MARKED:
		if (uc_before(flow->snd_una, flow->trial_at))
			break;
		if (uc_trial_count(flow) || flow->snd_una - flow->trial_at >= controls)
			uc_judge_marks(flow);
		break;
	}
}

/* Processes a RST of the peer that answers the guest's SYN. */
static __always_inline void uc_distrust_reset(struct uc_flow *flow)
{
	__u8 asked = uc_has_feedback(flow) && !(flow->policy.modes & UC_MODE_NO_ECT) &&
		     uc_syns(flow) <= flow->policy.ecn_syns;

	uc_set_trial(flow, UC_TRIAL_VERDICT, asked ? UC_REMOTE_REFUSED : UC_REMOTE_CLEARED);
}

/* Returns whether flows of a policy avoid ECN towards addresses with a remembered fault. Under a
 * guard they do not: by SYNs to a closed port, a guest could make an address seem to refuse ECN. */
static __always_inline __u8 uc_remembers_remotes(const struct uc_policy *policy)
{
	return uc_law_has(policy->law, UC_WANTS_ECN) && !uc_observes(policy) &&
	       !(policy->modes & UC_MODE_TRUST_ECN) && !uc_guard_segments(policy);
}

/* Processes a SYN-ACK that does not agree to ECN. If it answers a SYN without the offer, the SYNs
 * with the offer may have been dropped on the path. */
static __always_inline void uc_distrust_refused(struct uc_flow *flow)
{
	if (flow->policy.ecn_syns && uc_syns(flow) > flow->policy.ecn_syns &&
	    !(flow->policy.modes & UC_MODE_NO_ECT) && uc_remembers_remotes(&flow->policy))
		uc_distrust(flow, UC_REMOTE_REFUSED);
}

/* Returns the flow's evidence about its remote address so far. */
static __always_inline enum uc_remote_news uc_remote_news_of(const struct uc_flow *flow)
{
	__u32 agreed;

	if (!uc_remembers_remotes(&flow->policy))
		return UC_REMOTE_NOTHING;
	if (uc_trial_of(flow) == UC_TRIAL_VERDICT)
		return (enum uc_remote_news)uc_trial_count(flow);
	/* of a flow that the peer opened, the SYN may be forged until the peer acknowledges */
	agreed = uc_has_feedback(flow) & !uc_is_half_open(flow);
	return agreed ? UC_REMOTE_AGREED : UC_REMOTE_NOTHING;
}

/* What a platform remembers of a remote address, separately for each port. */
struct uc_remote {
	__u64 until_ns;
	__u32 news; /* enum uc_remote_news */
	__u32 pad;
};

#define UC_REMEMBERED_NS 3600000000000ULL

/* Returns whether the remembered evidence is still valid. */
static __always_inline __u8 uc_remembers(const struct uc_remote *remote, __u64 now_ns)
{
	return remote->news && now_ns < remote->until_ns;
}

/* Returns whether flows with this remote address must not use ECN. */
static __always_inline __u8 uc_is_distrusted(const struct uc_remote *remote, __u64 now_ns)
{
	return remote->news >= UC_REMOTE_REFUSED && uc_remembers(remote, now_ns);
}

/* Updates what is remembered of a remote address. `remote`: its entry, zeroed if new. */
static __always_inline void uc_remember(struct uc_remote *remote, enum uc_remote_news news,
					__u64 now_ns)
{
	__u8 known = uc_remembers(remote, now_ns);

	if (news == UC_REMOTE_NOTHING)
		return;
	if (news == UC_REMOTE_CLEARED) {
		if (remote->news == UC_REMOTE_REFUSED)
			remote->news = UC_REMOTE_NOTHING;
		return;
	}
	if (known && news == UC_REMOTE_REFUSED && remote->news == UC_REMOTE_AGREED)
		return;
	if (known && news == UC_REMOTE_AGREED && remote->news > UC_REMOTE_REFUSED)
		return;
	remote->news = news;
	remote->until_ns = now_ns + UC_REMEMBERED_NS;
}

#endif
