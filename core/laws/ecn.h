/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Laws that answer ECE: `ecn` (RFC 3168) and `dctcp` (RFC 8257), over either profile of NewReno.
 * Also the one way by which every caller reaches a law, `delay` and `coupled` too.
 */
#ifndef UC_LAWS_ECN_H
#define UC_LAWS_ECN_H

#include "coupled.h"
#include "dctcp.h"
#include "delay.h"
#include "reno_linux.h"
#include "reno_rfc.h"

/* A window that throttles nothing. */
#define UC_UNLIMITED_BYTES 0x7fffffff
/*
 * While a guest repairs a loss, its own machine governs; but the guard can hold nobody to a window
 * that throttles nothing, and a loss is easily feigned. So where there is a guard, the window is
 * what a repair needs at most: the flight that it began with, twice ssthresh, and the ssthresh of
 * new data that RFC 5681 and RFC 6937 let out during a round trip of it.
 */
#define UC_GUARDED_REPAIR_SSTHRESH 3

/* Can the law do without marks? Then a peer that doesn't speak ECN is no reason to pass. */
static __always_inline __u8 uc_law_needs_ecn(const struct uc_policy *policy)
{
	return policy->law == UC_LAW_ECN || policy->law == UC_LAW_DCTCP;
}

/* Has the law a use for marks? If not, no offer is made for it, and nothing that the flow sends is
 * ECN-capable: the network must not mark what nobody answers for (RFC 3168 §5). */
static __always_inline __u8 uc_law_wants_ecn(const struct uc_policy *policy)
{
	return policy->law != UC_LAW_DELAY;
}

static __always_inline void uc_law_open(struct uc_flow *flow)
{
	/* Below all data, not 0: comparisons are circular. RFC 6582 §3.2 step 1 sets recover to the
	 * initial sequence number; to the letter, the loss of the very first data segment would
	 * then wait for the timer, which no sender does and the RFC can't mean. */
	flow->reno.recover = flow->snd_una - 2;
	flow->reno.reduced_seq = flow->snd_una - 1;
	uc_dctcp_open(flow);
	if (flow->policy.law == UC_LAW_DELAY)
		uc_delay_open(flow);
	else if (flow->policy.profile == UC_PROFILE_RFC)
		uc_rfc_open(flow);
	else
		uc_linux_open(flow);
}

/* The guest sent `segments` wire segments; idle_us: how long it had nothing in flight before. */
static __always_inline void uc_law_sent(struct uc_flow *flow, enum uc_sent sent, __u32 segments,
					__u64 idle_us)
{
	if (flow->policy.law == UC_LAW_DELAY)
		uc_delay_sent(flow, sent, idle_us);
	else if (flow->policy.profile == UC_PROFILE_RFC)
		uc_rfc_sent(flow, sent, idle_us);
	else
		uc_linux_sent(flow, sent, segments, idle_us);
}

/* What a cut on ECE leaves of the window (bytes or segments, as the profile counts): RFC 3168
 * §6.1.2 halves it, where RFC 5681 on a loss halves the flight. */
static __always_inline __u32 uc_ecn_remains(const struct uc_flow *flow)
{
	if (flow->policy.law == UC_LAW_DCTCP)
		return uc_dctcp_remains(flow, flow->reno.cwnd);
	return flow->reno.cwnd / 2;
}

/* And its floor, in segments. */
static __always_inline __u32 uc_ecn_minimum(const struct uc_flow *flow)
{
	if (flow->policy.law == UC_LAW_DCTCP)
		return uc_max(flow->policy.minimum_window_segments, 1);
	return 2;
}

/* RFC 3168 §6.1.2: one reduction for a window of data, and none on top of a loss in that window. */
static __always_inline void uc_rfc_ecn(struct uc_flow *flow, const struct uc_ack *ack)
{
	__u8 lost = flow->ca == UC_CA_RECOVERY || (ack->duplicate && flow->dup_acks == UC_DUP_ACKS);
	__u8 resending = flow->ca == UC_CA_LOSS;
	struct uc_ack rest = *ack;

	if (!ack->ece || lost || !uc_after(flow->snd_una, flow->reno.reduced_seq)) {
		/* §6.1.2: nor does an ACK with ECE open the window; but while a timeout is being
		 * repaired, which answered the marks before it, the guest's own growth lets out
		 * what is sent again, and no window can hold back what is in flight */
		if (ack->ece && !lost && !resending)
			rest.acked_bytes = 0;
		uc_rfc_ack(flow, &rest);
		return;
	}
	uc_rfc_cut(flow, uc_max(uc_ecn_remains(flow), uc_ecn_minimum(flow) * flow->mss_bytes));
	flow->cuts++;
}

static __always_inline void uc_linux_ecn(struct uc_flow *flow, const struct uc_ack *ack)
{
	__u8 recovering = flow->ca == UC_CA_RECOVERY;
	struct uc_ack rest = *ack;

	if (ack->acked_bytes)
		uc_linux_end_reduction(flow);
	/* the duplicates of the recovery counted all but about one segment as delivered before */
	if (recovering && flow->ca == UC_CA_OPEN)
		rest.acked_bytes = uc_min(ack->acked_bytes, flow->mss_bytes);
	if (ack->ece && flow->ca == UC_CA_OPEN) {
		uc_linux_cut(flow, uc_max(uc_ecn_remains(flow), uc_ecn_minimum(flow)));
		flow->cuts++;
	}
	uc_linux_ack(flow, &rest);
}

static __always_inline void uc_law_ack(struct uc_flow *flow, const struct uc_ack *ack)
{
	if (flow->policy.law == UC_LAW_DCTCP)
		uc_dctcp_observe(flow, ack);
	if (flow->policy.law == UC_LAW_DELAY)
		uc_delay_ack(flow, ack);
	else if (flow->policy.profile == UC_PROFILE_RFC)
		uc_rfc_ecn(flow, ack);
	else
		uc_linux_ecn(flow, ack);
}

/* f's window, in bytes from snd_una on. */
static __always_inline __u32 uc_law_window_bytes(const struct uc_flow *flow)
{
	__u64 bytes = flow->reno.cwnd;

	if (flow->policy.law == UC_LAW_DELAY)
		return uc_delay_window_bytes(flow);
	if (flow->policy.profile == UC_PROFILE_LINUX) {
		if (!flow->policy.observe &&
		    (flow->ca == UC_CA_RECOVERY || flow->ca == UC_CA_LOSS)) {
			if (!flow->policy.guard_segments)
				return UC_UNLIMITED_BYTES;
			bytes = UC_GUARDED_REPAIR_SSTHRESH * (__u64)flow->reno.ssthresh;
		}
		bytes *= flow->mss_bytes;
	}
	return bytes < UC_UNLIMITED_BYTES ? bytes : UC_UNLIMITED_BYTES;
}

/* A DCTCP sender is ECN-capable in all that it sends behind its SYN, retransmissions and pure ACKs
 * too: they would be dropped where its data are marked (RFC 8257 §3.6; RFC 8311 §4.3 lifts RFC
 * 3168's ban). */
static __always_inline __u8 uc_law_marks_all(const struct uc_flow *flow)
{
	return flow->policy.law == UC_LAW_DCTCP;
}

/* RFC 3168 §6.1.3: CWR ends the peer's echo. On every data packet it leaves the echo to that
 * packet's own mark. */
static __always_inline __u8 uc_law_asks_exact(const struct uc_flow *flow)
{
	return flow->policy.law == UC_LAW_DCTCP && flow->policy.echo == UC_ECHO_CLASSIC;
}

/*
 * RFC 5681's fast retransmit in guests without SACK knows a duplicate ACK by its unchanged window
 * (Linux: FLAG_WIN_UPDATE), so theirs must not move. The profile `rfc` is about guests that count
 * duplicates by number: there the inflation of RFC 6582 §3.2 step 4 is passed on.
 */
static __always_inline __u8 uc_law_holds_duplicates(const struct uc_flow *flow)
{
	return flow->policy.profile == UC_PROFILE_LINUX && !(flow->bits & UC_FLOW_SACK);
}

#endif
