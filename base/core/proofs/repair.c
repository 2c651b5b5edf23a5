/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Under a guard no state in which the law answers no mark outlasts one repair: the repair's end,
 * `recover`, moves only if the state becomes a graver one, and when SND.UNA has passed `recover`,
 * the state is over. PROOF_SENT: a segment of the guest; PROOF_ACK: one to the guest.
 *
 * In profile `rfc` each timeout sets `recover` (RFC 6582 §3.2 step 6), at the price of a window of
 * one segment.
 */
#include "state.h"

/* Returns whether a repair is under way, whose end SND.UNA has not reached. */
static __u8 is_repairing(const struct uc_flow *flow)
{
	return flow->ca != UC_CA_OPEN && uc_before(flow->snd_una, flow->reno.recover);
}

/* Returns whether SND.UNA is at the end of the flow's repair. */
static __u8 has_repaired(const struct uc_flow *flow)
{
	/* a reduction on ECE, and profile `rfc`, wait for the ACK of one byte more */
	return uc_after(flow->snd_una, flow->reno.recover);
}

int main(void)
{
	struct uc_flow flow = sound_flow(), before = flow;
	struct uc_segment segment = any_segment();
	struct uc_sample sample = {.now_ns = any_long()};

	assume(flow.stage == UC_TRANSLATING && uc_guard_segments(&flow.policy));
	/* only profile `linux` reduces in steps on ECE */
	assume(flow.ca <= UC_CA_LOSS && (flow.ca != UC_CA_CWR || uc_counts_segments(&flow)));
#ifdef PROOF_SENT
	assume(is_repairing(&flow));
	assume(segment.direction == UC_FROM_GUEST && !(segment.flags & UC_SYN));
	uc_sent_by_guest(&flow, &annex, &segment, sample.now_ns);
	prove("a guest's segment prolongs no repair",
	      flow.reno.recover == before.reno.recover || flow.ca > before.ca ||
		      (before.ca == UC_CA_LOSS && flow.reno.cwnd == flow.mss_bytes));
#else
	/* a repair ends with what was sent, and no window is larger: numbers compare */
	assume(uc_flight_bytes(&flow) <= UC_WINDOW_MAX);
	assume(flow.ca == UC_CA_OPEN ||
	       flow.reno.recover - (flow.snd_una - 2) <= uc_flight_bytes(&flow) + 2);
	sample = uc_track_ack(&flow, &annex, &segment, sample.now_ns);
	if (sample.old || !sample.acked_bytes)
		return 0;
	uc_law_ack(&flow, &annex, &sample);
	prove("an ACK of new data beyond a repair ends it",
	      flow.ca == UC_CA_OPEN || !has_repaired(&flow));
#endif
	return 0;
}
