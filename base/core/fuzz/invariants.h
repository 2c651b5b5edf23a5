/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The invariants that hold for any sequence of segments. Each check reads one call of the core,
 * from the flow before and after it, the segment and the edit.
 */
#ifndef UC_FUZZ_INVARIANTS_H
#define UC_FUZZ_INVARIANTS_H

#include "core.h"
#include "input.h"

/* One call of the core. Each flow is the first member of a uc_whole. */
struct call {
	const struct uc_segment *segment;
	const struct uc_edit *edit;
	const struct uc_flow *before; /* NULL: the flow was not known */
	const struct uc_flow *after;  /* NULL: it is not known */
	const struct uc_policy *policy;
	enum uc_reason reason;
};

COUNTED(forged, "segments that their receiver discards")
COUNTED(dropped, "segments dropped by the guard or strict mode")
COUNTED(written, "windows written")

/* Returns whether the edit changes nothing. */
static __u8 is_untouched(const struct call *call)
{
	return call->edit->window == call->segment->window &&
	       call->edit->flags == call->segment->flags && call->edit->ecn == call->segment->ecn &&
	       !call->edit->removed;
}

/* Checks invariant "edit set", and that only SYNs and SYN-ACKs lose offers. */
static void check_edit(const struct call *call)
{
	const struct uc_segment *segment = call->segment;
	const struct uc_edit *edit = call->edit;

	require("only ECE and CWR change", !((edit->flags ^ segment->flags) & ~(UC_ECE | UC_CWR)));
	require("no window is above the receiver's", edit->window <= segment->window);
	require("no window is 0 unless the receiver's is", edit->window || !segment->window);
	require("the guest's own window stays",
		segment->direction == UC_TO_GUEST || edit->window == segment->window);
	require("only what policy says is removed, from SYNs and SYN-ACKs",
		!edit->removed || (segment->flags & UC_SYN &&
				   !(edit->removed & ~uc_withheld(call->policy, segment)) &&
				   !(edit->removed & ~segment->options)));
	written += edit->window != segment->window;
}

/* Checks invariant "fail open": what is not translated passes unmodified. Of a SYN-ACK the answer
 * to the host's own ECN offer may be cleared, and its downgrade stays. */
static void check_fail_open(const struct call *call)
{
	__u8 is_answer = (call->segment->flags & (UC_SYN | UC_ACK)) == (UC_SYN | UC_ACK);

	if (call->policy->modes & UC_MODE_OBSERVE) {
		require("a port that observes writes nothing", is_untouched(call));
		require("a port that observes drops nothing", !uc_drops(call->reason));
	}
	if (call->reason == UC_TRANSLATED || call->reason == UC_RESYNCED || call->reason == UC_HELD)
		return;
	require("what is not translated keeps its window",
		call->edit->window == call->segment->window);
	if (call->reason == UC_COARSE_WINDOW)
		return;
	require("what is not translated passes unmodified",
		is_untouched(call) || is_answer || call->edit->removed || uc_drops(call->reason));
}

/* Checks that a dropped segment has changed nothing in the flow. */
static void check_drop(const struct call *call)
{
	if (!uc_drops(call->reason))
		return;
	dropped++;
	require("a dropped segment enters no flow", call->before || !call->after);
	require("a dropped segment removes no flow", !call->before || call->after);
	require("a dropped segment changes no field",
		!call->before || !memcmp(call->before, call->after, sizeof(struct uc_whole)));
}

/* Checks invariant "no false signal" in an established flow. */
static void check_signals(const struct call *call)
{
	const struct uc_flow *flow = call->after;
	__u8 from_guest = call->segment->direction == UC_FROM_GUEST;

	if (!call->before || !flow || call->before->stage != UC_TRANSLATING ||
	    call->segment->flags & UC_SYN || !uc_writes(flow) || uc_drops(call->reason))
		return;
	if (!from_guest) {
		require("the guest sees no ECE and no CWR",
			!(call->edit->flags & (UC_ECE | UC_CWR)));
		require("the guest sees no ECN codepoint", call->edit->ecn == UC_NOT_ECT);
		return;
	}
	require("only ECT(0) leaves the guest", !call->edit->ecn || call->edit->ecn == UC_ECT0);
	require("no ECT leaves without ECN", !call->edit->ecn || uc_has_feedback(flow));
}

/* Checks invariant "no shrink", of ACKs that move or repeat SND.UNA. */
static void check_shrink(const struct call *call)
{
	const struct uc_flow *flow = call->after;
	__u64 own_bytes, sent_bytes, bytes;

	if (!flow || call->segment->direction == UC_FROM_GUEST || call->segment->flags & UC_SYN ||
	    call->edit->window == call->segment->window)
		return;
	require("only established flows get windows", flow->stage == UC_TRANSLATING);
	own_bytes = (__u64)call->segment->window << uc_wscale(flow);
	bytes = (__u64)call->edit->window << uc_wscale(flow);
	sent_bytes = flow->snd_nxt - call->segment->ack;
	/* of an ACK that a later one has overtaken: what the guest was given before */
	if (call->segment->ack != flow->snd_una && uc_before(flow->edge, flow->snd_nxt))
		sent_bytes = flow->edge - call->segment->ack;
	require("no window ends before what the guest has sent",
		bytes >= sent_bytes || own_bytes < sent_bytes);
}

/* Checks that a flow's numbers are in their ranges. */
static void check_state(const struct call *call)
{
	const struct uc_flow *flow = call->after;

	if (!flow || flow->stage != UC_TRANSLATING)
		return;
	require("a segment has bytes", flow->mss_bytes >= UC_MSS_MIN_BYTES - UC_TIMESTAMPS_BYTES);
	require("no segment is above the agreed MSS", flow->mss_bytes <= flow->mss_agreed_bytes);
	require("the window scale is legal", uc_wscale(flow) <= UC_WSCALE_MAX);
	require("the guest's window has 16 bits",
		UC_GUEST_BITS(flow->guest_window) <= 15 &&
			UC_GUEST_SCALE(flow->guest_window) <= UC_WSCALE_MAX);
	require("round-trip times are samples that were accepted",
		flow->srtt_us <= UC_RTT_MAX_US << 3 && flow->rttvar_us <= UC_RTT_MAX_US << 2);
	require("the marks to echo are of one window",
		flow->echo_owed_bytes >= -UC_WINDOW_MAX && flow->echo_owed_bytes <= 3 << 29);
	if (uc_cut_of(flow->policy.law) == UC_CUT_dctcp)
		require("alpha is at most 1", flow->dctcp.alpha_q30 <= UC_ALPHA_ONE_Q30);
}

/* Returns whether the numbers of a segment of the peer lie outside the guest's receive window, by
 * what the flow has seen: acceptable.h, read again from the RFCs. */
static __u8 is_outside(const struct uc_flow *flow, const struct uc_segment *segment)
{
	__u32 room = 2U << ((flow->guest_window >> 4) + (flow->guest_window & 15));
	__u32 end = segment->seq + segment->payload_bytes + (segment->flags & UC_FIN);
	__s32 behind = (__s32)(end - flow->echoed_ack),
	      ahead = (__s32)(segment->seq - flow->echoed_ack);

	/* a guest that has acknowledged what never passed: its window is where the data is, too */
	if (flow->peer_nxt - flow->echoed_ack > room &&
	    segment->seq - flow->peer_nxt + room <= 2 * room)
		return 0;
	return behind < 0 || (__s32)(ahead - room) > 0;
}

/* Returns whether the ACK number of a segment of the peer is of data that the guest never sent, or
 * of data acknowledged a window ago. */
static __u8 is_no_ack(const struct uc_flow *flow, __u32 ack)
{
	__u32 slack = uc_guard_segments(&flow->policy), end = flow->snd_nxt, edge;

	end += !!(flow->bits & UC_FLOW_PROBED);
	edge = flow->furthest_edge + (slack ? slack : 1) * flow->mss_bytes;
	if (!(flow->bits & UC_FLOW_ANSWERED))
		return ack - flow->snd_una > end - flow->snd_una;
	if (flow->bits & UC_FLOW_GIVEN && (__s32)(edge - end) > 0)
		end = edge;
	return (__s32)(ack - end) > 0 ||
	       (__s32)(ack - flow->snd_una + (65535U << uc_wscale(flow))) < 0;
}

/* Returns whether the guest discards a segment of the peer that is no SYN. */
static __u8 is_discarded(const struct uc_flow *flow, const struct uc_segment *segment)
{
	if (segment->flags & UC_RST && flow->stage == UC_SYN_SENT)
		return !(segment->flags & UC_ACK) ||
		       segment->ack - flow->snd_una - 1 >= flow->snd_nxt - flow->snd_una;
	if (segment->flags & UC_RST)
		return segment->seq != flow->echoed_ack && segment->seq != flow->peer_nxt;
	if (flow->stage != UC_TRANSLATING || !(segment->flags & UC_ACK) ||
	    is_outside(flow, segment))
		return 1;
	return !(flow->bits & UC_FLOW_UNSURE) && is_no_ack(flow, segment->ack);
}

/* Checks invariant "out-of-window segments". */
static void check_unchanged(const struct call *call)
{
	struct uc_whole flow, before;

	if (!call->before || !call->after || call->segment->direction == UC_FROM_GUEST)
		return;
	if (uc_is_syn(call->segment)) {
		if (call->before->stage != UC_TRANSLATING)
			return;
		flow = *(const struct uc_whole *)call->after;
		before = *(const struct uc_whole *)call->before;
		memset(uc_kept(&flow.flow, &flow.annex), 0, sizeof(struct uc_kept_syn));
		memset(uc_kept(&before.flow, &before.annex), 0, sizeof(struct uc_kept_syn));
		flow.flow.bits &= ~(UC_FLOW_GUEST_ASKED | UC_FLOW_PEER_ASKED);
		before.flow.bits &= ~(UC_FLOW_GUEST_ASKED | UC_FLOW_PEER_ASKED);
		require("a SYN of the peer changes only where it is stored",
			!memcmp(&flow, &before, sizeof(flow)));
		return;
	}
	if (call->segment->flags & UC_SYN || !is_discarded(call->before, call->segment))
		return;
	forged++;
	require("a segment that its receiver discards changes no field",
		!memcmp(call->before, call->after, sizeof(struct uc_whole)));
}

/* Checks all invariants of one call. */
static void check_call(const struct call *call)
{
	check_edit(call);
	check_fail_open(call);
	check_drop(call);
	check_signals(call);
	check_shrink(call);
	check_state(call);
	check_unchanged(call);
}

#endif
