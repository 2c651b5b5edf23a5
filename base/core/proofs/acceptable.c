/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which segments of the peer the core accepts, against RFC 9293 §3.10.7.4 and RFC 5961 on numbers
 * that do not wrap. PROOF_WINDOW: an acceptable segment ends at or after the guest's last ACK, and
 * begins within the largest window. PROOF_ACK: it acknowledges nothing that the guest may not have
 * sent, nor anything older than the largest window. PROOF_RESET: a RST has a number that the guest
 * expects.
 */
#include "guard.h"
/* Any slack, instead of a product, which would take the solver minutes. */
static __u32 slack_bytes;
#define uc_slack_bytes(flow) slack_bytes
#include "state.h"

/* The largest slack of the guard: of the most segments of the largest size. */
#define SLACK_MOST (255U * 65535)

int main(void)
{
	struct uc_flow flow = sound_flow();
	struct uc_segment segment = any_segment();
	/* how far the segment lies behind the guest's last ACK, and its ACK behind SND.UNA */
	__s64 seq = (__s32)any_word(), ack = (__s32)any_word();
	__s64 end, sent = uc_flight_bytes(&flow) + 1LL, window = uc_guest_window_bytes(&flow);
	__s64 given = flow.furthest_edge - flow.snd_una;

	slack_bytes = any_word();
	assume(slack_bytes <= SLACK_MOST);
	segment.seq = flow.echoed_ack + (__u32)seq;
	segment.ack = flow.snd_una + (__u32)ack;
	end = seq + segment.payload_bytes + !!(segment.flags & UC_FIN);
	assume(flow.stage == UC_TRANSLATING && !(flow.bits & UC_FLOW_UNSURE));
	assume(uc_knows_ack(&flow) && segment.direction == UC_TO_GUEST);
	assume(!(segment.flags & UC_SYN) && segment.payload_bytes <= 1 << 20);
	/* given.c proves both of flows under a guard */
	assume(uc_flight_bytes(&flow) <= UC_WINDOW_MAX && given <= UC_WINDOW_MAX);
	if (flow.bits & UC_FLOW_GIVEN && sent < given + slack_bytes)
		sent = given + slack_bytes;
#ifdef PROOF_RESET
	if (uc_resets(&flow, &segment))
		prove("a RST has a number that the guest expects",
		      !seq || segment.seq == flow.peer_nxt);
#elif defined(PROOF_WINDOW)
	if (uc_is_in_window(&flow, &segment))
		prove("an acceptable segment lies in the guest's window",
		      end >= 0 && seq <= window);
#else
	if (uc_may_acknowledge(&flow, segment.ack))
		prove("an acceptable ACK is of what the guest may have sent",
		      ack >= -(65535LL << uc_wscale(&flow)) && ack <= sent);
#endif
	return 0;
}
