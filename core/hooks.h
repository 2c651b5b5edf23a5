/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The two hooks of a port: is one of them blind? Each program sees one direction. Another program
 * that ends the hook's chain, a redirection past the hook, or a route by another port can hide a
 * direction from its program while the other one still sees traffic. ECN needs both: an offer, a
 * mark or an echo that passes one hook must be answered through the other. So a half-blind port
 * asks for no ECN.
 *
 * Two kinds of evidence count, and never silence alone: an idle port keeps what is known of it, and
 * an outage, in which a guest retransmits after longer and longer pauses, proves nothing.
 *
 * - A run: one hook has seen segments with ACK for UC_HOOKS_RUN_NS, without a pause of that length,
 *   and the other hook no TCP segment. It is blind until it sees one. SYNs make no run: a guest may
 *   send them for ever to an address that nobody has.
 * - A missed answer: the guest goes on after a SYN whose SYN-ACK the port has not seen. No new flow
 *   asks for ECN until the hook sees a segment, and for UC_HOOKS_TRIAL_NS: where only some answers
 *   are hidden (two uplinks, say), each trial may cost the flows of one round trip. It is none if
 *   that hook has just seen a packet that the port can't read, such as a fragment: that may have
 *   been the SYN-ACK, and its sender must not end ECN for the guest's other connections.
 *
 * A port is in doubt while its hook to the guest has seen nothing since user space cleared it. User
 * space does so when other programs run before that hook's own.
 */
#ifndef UC_HOOKS_H
#define UC_HOOKS_H

#include "flow.h"
#include "segment.h"
#include "since.h"

/* How long a hook must see a run of segments before the other one is blind. Answers take less than
 * this, the minimum RTO of RFC 6298 §2.4. */
#define UC_HOOKS_RUN_NS 1000000000ULL
/* How long no flow asks for ECN after a missed answer. */
#define UC_HOOKS_TRIAL_NS 60000000000ULL
/* Resolution of the stored times, so coarse that CPUs seldom write their shared cache line. */
#define UC_HOOKS_GRAIN_NS 50000000ULL

/* What a port's hooks have seen, each array by enum uc_direction. CPUs write it without a lock: a
 * lost update is made up for by the next segment. */
struct uc_hooks {
	__u64 seen_ns[2];    /* when the hook last saw a TCP segment; 0: never */
	__u64 run_ns[2];     /* when the last run began */
	__u64 run_end_ns[2]; /* when the last segment of that run passed */
	__u64 missed_ns;     /* when an answer was missed last; 0: never */
	__u64 unread_ns;     /* when an unreadable packet to the guest passed last; 0: never */
};

/* Records that the hook of the segment's direction has seen it. A run begins again after a pause,
 * and where the other hook has seen anything since it began. */
static __always_inline void uc_hook_saw(struct uc_hooks *hooks, const struct uc_segment *segment,
					__u64 now_ns)
{
	__u32 here = segment->direction == UC_TO_GUEST, there = !here;
	__u64 since_ns = uc_since_ns(now_ns, hooks->run_end_ns[here]);

	if (uc_since_ns(now_ns, hooks->seen_ns[here]) >= UC_HOOKS_GRAIN_NS)
		hooks->seen_ns[here] = now_ns;
	if ((segment->flags & (UC_SYN | UC_RST | UC_ACK)) != UC_ACK || since_ns < UC_HOOKS_GRAIN_NS)
		return;
	if (since_ns >= UC_HOOKS_RUN_NS || hooks->seen_ns[there] >= hooks->run_ns[here])
		hooks->run_ns[here] = now_ns;
	hooks->run_end_ns[here] = now_ns;
}

/* Records a packet to the guest that the port can't read. */
static __always_inline void uc_hook_unread(struct uc_hooks *hooks, __u64 now_ns)
{
	if (uc_since_ns(now_ns, hooks->unread_ns) >= UC_HOOKS_GRAIN_NS)
		hooks->unread_ns = now_ns;
}

/* Records a missed answer, unless a packet that the port can't read, and that may have been the
 * answer, passed within UC_HOOKS_RUN_NS. */
static __always_inline void uc_hook_missed(struct uc_hooks *hooks, __u64 now_ns)
{
	if (!hooks->unread_ns || uc_since_ns(now_ns, hooks->unread_ns) >= UC_HOOKS_RUN_NS)
		hooks->missed_ns = now_ns;
}

/* Returns whether the hook of this direction sees nothing while the other one sees traffic. */
static __always_inline __u8 uc_is_blind(const struct uc_hooks *hooks, enum uc_direction direction)
{
	__u32 here = direction == UC_TO_GUEST, there = !here;

	return uc_since_ns(hooks->run_end_ns[there], hooks->run_ns[there]) >= UC_HOOKS_RUN_NS &&
	       hooks->seen_ns[here] < hooks->run_ns[there];
}

/* Returns whether new flows of the guest may ask for ECN. */
static __always_inline __u8 uc_hooks_ask(const struct uc_hooks *hooks, __u64 now_ns)
{
	__u64 missed_ns = hooks->missed_ns;

	if (hooks->seen_ns[UC_TO_GUEST] <= missed_ns || uc_is_blind(hooks, UC_TO_GUEST))
		return 0;
	return !missed_ns || uc_since_ns(now_ns, missed_ns) >= UC_HOOKS_TRIAL_NS;
}

/* Returns whether the segment shows that a SYN-ACK has reached the guest, but not the port: by its
 * sequence number, the guest's ACK follows its SYN, or lies in the data of that SYN (RFC 7413). */
static __always_inline __u8 uc_is_missed(const struct uc_flow *flow,
					 const struct uc_segment *segment)
{
	return flow->stage == UC_SYN_SENT && segment->direction == UC_FROM_GUEST &&
	       (segment->flags & (UC_SYN | UC_RST | UC_ACK)) == UC_ACK &&
	       segment->seq - flow->snd_una - 1 < uc_flight_bytes(flow);
}

#endif
