/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Grants: paces the first windows of flows to different hosts that share a link. None of these
 * hosts sees the starts of all flows, so none can pace them alone. One of the hosts, the granter,
 * has the token bucket of the shared link (bucket.h) and gives every flow the time when it may
 * start.
 *
 * A flow's host asks the granter with one small packet when the first packet of its guest leaves
 * (SYN, or SYN-ACK). The answer is a time to wait, counted from its arrival, so the hosts need no
 * common clock. No packet is changed. The receiving hosts grant whole windows (`granted` in
 * policy). Which host asks depends on the platform:
 *
 *   simulator: the flow's sending host. Question and answer travel while the handshake does, and
 *              take no time of their own where the granter is no further away than the receiving
 *              host. What waits is the peer's answer to the first packet, before the guest sees
 *              it: the guest sends no data before that time.
 *   kernel:    the flow's receiving host, which is behind the shared link itself and so close to
 *              the granter. What waits is the first packet.
 *
 * A question or an answer may be lost, and the granter may be gone. Then the flow starts a short
 * time after its handshake, and later flows wait for no answer until one arrives again: they start
 * as without pacing.
 *
 * A flow asks for what flows of its host use of their first windows on average, headers included.
 * The mean must be exact: if flows were charged a few percent more than they use, a link that is
 * nearly full would count as overfull, and waits would grow without bound. A receiving host, which
 * charges whole segments, adds what earlier flows used beyond their charges.
 *
 * The granter does not see what arrives at the other hosts. So a burst of flow starts always gets
 * the part that it has of a full link.
 *
 * A platform calls, under one lock for each flow:
 *   sending:   uc_watch_ask with the guest's first packet; _granted with the granter's answer;
 *              _grant_wait_ns with the peer's answer, _unanswered where that time passed without
 *              the granter's; _note_sent for each segment of the guest
 *   receiving: uc_watch_ask_for with each charge and correction (uc_watch_answer); _granted,
 *              _grant_wait_ns with the guest's first packet, and _unanswered, as above
 *   granter:   uc_watch_grant_ns
 */
#ifndef UC_WATCH_GRANT_H
#define UC_WATCH_GRANT_H

#include "bucket.h"
#include "flow.h"

/* How long a packet waits for the granter's answer. */
#define UC_WATCH_ANSWER_US 1000U

/* The most bytes of the link that a question is for: what a first window can take. */
#define UC_WATCH_ASK_MAX_BYTES (2 * 65535)

/* What a host that asks a granter keeps of it. All zero: no question was answered or missed yet, and
 * flows wait for answers. */
struct uc_watch_granter {
	__u32 used_q8; /* bytes of the link that flows use of their first windows on average, times
			* 256; 0: unknown; kept by sending hosts only */
	__u8 silent;   /* 1: its last answer did not come in time */
	__u8 pad[3];
};

/* A flow's grant at the host that asks for it. All zero: not asked for. */
struct uc_watch_grant {
	__u64 due_ns;    /* when the flow may start; valid if `granted` */
	__u32 start;     /* sequence number of the guest's first byte of data */
	__u16 mss_bytes; /* payload of a segment */
	__u8 asked;      /* 1: the question has been sent */
	__u8 granted;    /* 1: the answer has arrived */
	__u8 measured;   /* 1: its use of the first window is in the mean */
	__u8 pad[7];
};

/* Handles the guest's first packet. Returns for how many bytes of the link to ask the granter; 0:
 * the flow has asked before. */
static __always_inline __u32 uc_watch_ask(struct uc_watch_grant *grant,
					  const struct uc_watch_granter *granter,
					  const struct uc_watch_policy *policy,
					  const struct uc_segment *segment)
{
	__u32 bytes;

	if (grant->asked || policy->observe)
		return 0;
	grant->asked = 1;
	grant->start = segment->seq + 1;
	grant->mss_bytes = uc_offered_mss_bytes(segment);
	bytes = uc_watch_whole_bytes(policy, grant->mss_bytes);
	bytes = uc_watch_frame_bytes(grant->mss_bytes, bytes);
	return granter->used_q8 ? uc_min(granter->used_q8 / 256, bytes) : bytes;
}

/*
 * Returns for how many bytes of the link a receiving host asks that grants a first window of
 * `grant_bytes`; 0: it grants none. `settle_bytes`: what a flow has used beyond its charge,
 * negative for less. `owed_bytes`: the host's sum of such bytes that no question has included yet.
 */
static __always_inline __u32 uc_watch_ask_for(__s32 *owed_bytes, __u32 grant_bytes,
					      __s32 settle_bytes)
{
	__s32 bytes = *owed_bytes + settle_bytes + (__s32)grant_bytes, asked = 0;

	if (grant_bytes)
		asked = bytes > 0 ? uc_min(bytes, UC_WATCH_ASK_MAX_BYTES) : 1;
	bytes -= asked;
	if (bytes > UC_WATCH_ASK_MAX_BYTES)
		bytes = UC_WATCH_ASK_MAX_BYTES;
	if (bytes < -UC_WATCH_ASK_MAX_BYTES)
		bytes = -UC_WATCH_ASK_MAX_BYTES;
	*owed_bytes = bytes;
	return asked;
}

/* Handles the granter's answer: the flow waits for `wait_ns`, at most policy's longest wait. */
static __always_inline void uc_watch_granted(struct uc_watch_grant *grant,
					     struct uc_watch_granter *granter,
					     const struct uc_watch_policy *policy, __u64 wait_ns,
					     __u64 now_ns)
{
	__u64 longest_ns = uc_min(policy->wait_us, UC_WATCH_WAIT_MAX_US) * 1000ULL;

	granter->silent = 0;
	if (!grant->asked || grant->granted)
		return;
	grant->granted = 1;
	grant->due_ns = now_ns + (wait_ns < longest_ns ? wait_ns : longest_ns);
}

/* Returns how much longer (ns) a packet waits that has been waiting since `answered_ns`: at a
 * sending host the peer's answer to the guest's first packet, at a receiving host the guest's first
 * packet. To be called again after that time, and when the granter's answer arrives before. */
static __always_inline __u64 uc_watch_grant_wait_ns(const struct uc_watch_grant *grant,
						    const struct uc_watch_granter *granter,
						    __u64 answered_ns, __u64 now_ns)
{
	__u64 until_ns = answered_ns + UC_WATCH_ANSWER_US * 1000ULL;

	if (!grant->asked || (!grant->granted && granter->silent))
		return 0;
	if (grant->granted)
		until_ns = grant->due_ns;
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

/* Records that a flow starts without the granter's answer. */
static __always_inline void uc_watch_unanswered(const struct uc_watch_grant *grant,
						struct uc_watch_granter *granter)
{
	if (grant->asked && !grant->granted)
		granter->silent = 1;
}

/* Learns from the guest's segments how much of their first windows flows use, as a moving mean. */
static __always_inline void uc_watch_note_sent(struct uc_watch_grant *grant,
					       struct uc_watch_granter *granter,
					       const struct uc_watch_policy *policy,
					       const struct uc_segment *segment)
{
	__u32 bytes = segment->seq + segment->payload_bytes - grant->start;
	__u32 whole_bytes = uc_watch_whole_bytes(policy, grant->mss_bytes), used_q8;

	if (!grant->asked || grant->measured || segment->flags & UC_SYN)
		return;
	if (!(segment->flags & UC_FIN) && bytes < whole_bytes)
		return;
	grant->measured = 1;
	bytes = uc_min(bytes, whole_bytes);
	used_q8 = 256 * uc_watch_frame_bytes(grant->mss_bytes, bytes);
	if (granter->used_q8)
		used_q8 = granter->used_q8 - granter->used_q8 / 8 + used_q8 / 8;
	granter->used_q8 = uc_max(used_q8, 1);
}

/* Answers a question for `bytes` of the link at the granter: how long (ns) the flow waits. Charges
 * the link's bucket, but no more than a first window can take: no question takes the link for
 * itself. */
static __always_inline __u64 uc_watch_grant_ns(struct uc_watch_bucket *bucket,
					       const struct uc_watch_policy *policy, __u32 bytes,
					       __u64 now_ns)
{
	return uc_watch_turn_ns(bucket, policy, uc_min(bytes, UC_WATCH_ASK_MAX_BYTES), 1, now_ns);
}

#endif
