/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Remote ends and paths that harm flows with ECN, which the host asked for and the guest did not.
 * The guest must not lose its connection to it. So a flow tests what it suspects, and goes on
 * without ECN; the platform remembers the remote address for an hour (uc_remote below).
 *
 *   refused   a RST answers the SYN that asks for ECN, or only a SYN without the offer gets an
 *             answer. That may be meant: the service is down, SYNs were lost. So an address that
 *             has agreed to ECN is not suspected, and one that resets a SYN without the offer,
 *             too, is cleared.
 *   lost      ECT data vanish. A try ends with the ACK of what was in flight at its first
 *             retransmission. If all of that had to be retransmitted, and of the data after it as
 *             well, at least ten segments in all and none delivered between, it is the path.
 *   marked    everything is marked. After eight reductions in a row without one ACK free of ECE,
 *             and while the round-trip time shows no queue, the flow sends a window of data without
 *             ECT. A switch that marks because it is congested drops such data (RFC 7567 §4.2.1,
 *             RFC 3168 §5). If they arrive, the marks were no congestion: ECE means nothing any
 *             more.
 *
 * RFC 9000 §13.4.2.1 and RFC 9768 §3.2.2.4 test paths of QUIC and AccECN for the same two faults.
 */
#ifndef UC_DISTRUST_H
#define UC_DISTRUST_H

#include "flow.h"
#include "track.h"

/* ECT segments lost in a row that convict a path, in two tries or more. */
#define UC_LOST_SEGMENTS 10
/* Reductions in a row without an ACK free of ECE, before the marks are tested. */
#define UC_MARKED_CUTS 8
/* The smallest round-trip time of a path whose marks are tested, in µs: shorter ones are within a
 * data centre, where a flow may begin behind a queue that stays. */
#define UC_MARKED_RTT_US 5000
/* Segments without ECT that must arrive for the marks to be disbelieved. */
#define UC_MARKED_CONTROLS 2

/* Parts of uc_flow.ecn_lost: a try has ended with all lost; a retransmission of this try was lost,
 * too, or no data has arrived yet; no ACK has come since the last one; one of them was no tail loss
 * probe, which may come before a delayed ACK; and the segments lost in a row. */
#define UC_LOST_ONCE  0x80
#define UC_LOST_DOUBT 0x40
#define UC_LOST_QUIET 0x20
#define UC_LOST_SURE  0x10
#define UC_LOST_COUNT 0x0f

/* What a flow has shown of its remote address. */
enum uc_remote_news {
	UC_REMOTE_NOTHING,
	UC_REMOTE_AGREED,  /* it agreed to ECN */
	UC_REMOTE_CLEARED, /* it reset a SYN without an offer, too */
	UC_REMOTE_REFUSED,
	UC_REMOTE_LOST,
	UC_REMOTE_MARKED,
};

/* Ends the flow's use of ECN for its data. */
static __always_inline void uc_distrust(struct uc_flow *flow, enum uc_remote_news why)
{
	flow->policy.modes |= UC_MODE_NO_ECT;
	uc_set_trial(flow, UC_TRIAL_VERDICT, why);
}

/* Returns whether the flow tries anything. Under a guard it doesn't: a guest could feign that its
 * data were lost, to be rid of marks. */
static __always_inline __u8 uc_may_distrust(const struct uc_flow *flow)
{
	return uc_sends_ect(flow) && !uc_observes(&flow->policy) &&
	       !(flow->policy.modes & UC_MODE_TRUST_ECN) && !uc_guard_segments(&flow->policy);
}

/* Begins without a suspicion, unless the SYN-ACK has brought one. */
static __always_inline void uc_distrust_open(struct uc_flow *flow)
{
	if (uc_trial_of(flow) == UC_TRIAL_VERDICT && flow->policy.modes & UC_MODE_NO_ECT)
		return;
	uc_set_trial(flow, UC_TRIAL_NONE, 0);
	flow->ecn_lost = 0;
	flow->trial_at = ~0U;
}

/* Trusts ECT again: some of it has arrived. A flow that has lost data does not test marks, since
 * its path was full. */
static __always_inline void uc_trust(struct uc_flow *flow)
{
	uc_set_trial(flow, UC_TRIAL_NONE, 0);
	flow->ecn_lost = 0;
	flow->trial_at = 0;
}

/* Ends what is on trial where the flow goes on elsewhere (missed.h). */
static __always_inline void uc_distrust_moved(struct uc_flow *flow)
{
	if (uc_trial_of(flow) == UC_TRIAL_VERDICT)
		return;
	if (uc_trial_of(flow) == UC_TRIAL_MARKED)
		flow->policy.modes &= ~UC_MODE_NO_ECT;
	uc_trust(flow);
}

/* Returns whether what is no new data may be ECT, under a law that has all ECT: not where its
 * retransmissions were lost, too, or all of a try. */
static __always_inline __u8 uc_marks_rest(const struct uc_flow *flow)
{
	return uc_sends_ect(flow) && !(flow->ecn_lost & (UC_LOST_DOUBT | UC_LOST_ONCE));
}

/* Returns whether none of the guest's data was acknowledged yet (as far as profile `linux` knows,
 * which leaves `recover` until its first reduction). */
static __always_inline __u8 uc_is_first_flight(const struct uc_flow *flow)
{
	return uc_counts_segments(flow) && flow->reno.recover + 2 == flow->snd_una;
}

/* Takes in a retransmission of `segments`, before it leaves. `again`: of the same data as the one
 * before. What an ACK has reported behind a hole was ECT, too, and has arrived. */
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

/* Ends the test of marks, by an ACK of data without ECT. */
static __always_inline void uc_judge_marks(struct uc_flow *flow)
{
	if (uc_trial_count(flow)) {
		/* congestion, and not tested again */
		flow->policy.modes &= ~UC_MODE_NO_ECT;
		uc_trust(flow);
		return;
	}
	uc_distrust(flow, UC_REMOTE_MARKED);
}

/* Returns whether the round-trip time shows no queue that marks: such a queue is at least a seventh
 * of what the path holds (RFC 8257 §4.1 and its source, DCTCP §3.3), and the smoothed time here at
 * most an eighth above the smallest. */
static __always_inline __u8 uc_is_idle_path(const struct uc_flow *flow)
{
	return flow->trial_at >= UC_MARKED_RTT_US &&
	       flow->srtt_us >> 3 <= flow->trial_at + (flow->trial_at >> 3);
}

/* Counts reductions on ECE that no ACK without ECE has interrupted, and begins the test of marks.
 */
static __always_inline void uc_count_marks(struct uc_flow *flow, const struct uc_ack *ack,
					   __u8 has_cut)
{
	__u32 cuts = uc_min(uc_trial_count(flow) + 1, UC_TRIAL_COUNT_MAX);

	if (!ack->ece)
		uc_set_trial(flow, UC_TRIAL_NONE, 0);
	if (!ack->ece || !has_cut || !uc_may_distrust(flow))
		return;
	uc_set_trial(flow, UC_TRIAL_NONE, cuts);
	if (cuts >= UC_MARKED_CUTS && !flow->ecn_lost && uc_is_idle_path(flow)) {
		uc_set_trial(flow, UC_TRIAL_MARKED, 0);
		flow->policy.modes |= UC_MODE_NO_ECT;
		flow->trial_at = flow->snd_nxt;
	}
}

/* Takes in an ACK that acknowledges nothing new while something is on trial: one that shows a hole
 * shows that ECT data behind it have arrived, unless a retransmission may have. */
static __always_inline void uc_distrust_repeated(struct uc_flow *flow)
{
	__u8 first = uc_trial_of(flow) == UC_TRIAL_LOST &&
		     uc_trial_count(flow) + 1 >= uc_flight_segments(flow) &&
		     flow->bits & UC_FLOW_RESENT;

	if (flow->repeated && (first || (uc_trial_of(flow) == UC_TRIAL_NONE && flow->ecn_lost)))
		uc_trust(flow);
}

/* Takes in an ACK of new data, after the law. `has_cut`: the law has reduced its window on ECE. */
static __always_inline void uc_distrust_acked(struct uc_flow *flow, const struct uc_ack *ack,
					      __u8 has_cut)
{
	__u32 controls = UC_MARKED_CONTROLS * flow->mss_bytes;

	switch (uc_trial_of(flow)) {
	case UC_TRIAL_NONE:
		/* data that were sent as ECT since the last try have arrived */
		if (flow->ecn_lost && uc_after(flow->snd_una, flow->trial_at))
			uc_trust(flow);
		uc_count_marks(flow, ack, has_cut);
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

/* Takes in that the peer has reset the guest's SYN. */
static __always_inline void uc_distrust_reset(struct uc_flow *flow)
{
	__u8 asked = uc_has_feedback(flow) && !(flow->policy.modes & UC_MODE_NO_ECT) &&
		     uc_syns(flow) <= flow->policy.ecn_syns;

	uc_set_trial(flow, UC_TRIAL_VERDICT, asked ? UC_REMOTE_REFUSED : UC_REMOTE_CLEARED);
}

/* Returns whether flows of a policy do without ECN where others have lost by it. Under a guard they
 * don't: a guest could have an address refuse it, by a port that is closed. */
static __always_inline __u8 uc_remembers_remotes(const struct uc_policy *policy)
{
	return uc_law_has(policy->law, UC_WANTS_ECN) && !uc_observes(policy) &&
	       !(policy->modes & UC_MODE_TRUST_ECN) && !uc_guard_segments(policy);
}

/* Takes in a SYN-ACK that does not agree to ECN. If only a SYN without the offer got it, SYNs that
 * ask may be dropped on the way. */
static __always_inline void uc_distrust_refused(struct uc_flow *flow)
{
	if (flow->policy.ecn_syns && uc_syns(flow) > flow->policy.ecn_syns &&
	    !(flow->policy.modes & UC_MODE_NO_ECT) && uc_remembers_remotes(&flow->policy))
		uc_distrust(flow, UC_REMOTE_REFUSED);
}

/* Returns what the flow has shown of its remote address so far. */
static __always_inline enum uc_remote_news uc_remote_news_of(const struct uc_flow *flow)
{
	__u32 agreed;

	if (!uc_remembers_remotes(&flow->policy))
		return UC_REMOTE_NOTHING;
	if (uc_trial_of(flow) == UC_TRIAL_VERDICT)
		return (enum uc_remote_news)uc_trial_count(flow);
	/* of a flow that the peer opened it is not known yet if the SYN was forged */
	agreed = uc_has_feedback(flow) & flow->bits / UC_FLOW_ANSWERED;
	return flow->stage == UC_TRANSLATING && agreed ? UC_REMOTE_AGREED : UC_REMOTE_NOTHING;
}

/* What a platform remembers of a remote address, for each port by itself. */
struct uc_remote {
	__u64 until_ns;
	__u32 news; /* enum uc_remote_news */
	__u32 pad;
};

#define UC_REMEMBERED_NS 3600000000000ULL

/* Returns whether what is remembered still holds. */
static __always_inline __u8 uc_remembers(const struct uc_remote *remote, __u64 now_ns)
{
	return remote->news && now_ns < remote->until_ns;
}

/* Returns whether flows with this remote address must do without ECN. */
static __always_inline __u8 uc_is_distrusted(const struct uc_remote *remote, __u64 now_ns)
{
	return remote->news >= UC_REMOTE_REFUSED && uc_remembers(remote, now_ns);
}

/* Takes in news of the remote address. `remote`: what is remembered of it, or zeroed. */
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
