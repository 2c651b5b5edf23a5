/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The host's state of one flow, both directions.
 *
 * The two directions of a flow run on different CPUs. A platform holds one short lock per flow
 * around uc_translate(). So no field needs an atomic, and the core may read and write all of them.
 */
#ifndef UC_FLOW_H
#define UC_FLOW_H

#include "coupling/segments.h"
#include "mss.h"
#include "policy.h"
#include "segment.h"
#include "since.h"

/* The stage of the handshake. */
enum uc_stage {
	UC_SYN_SENT,     /* the guest's SYN has passed, with an offer of ECN unless only observed */
	UC_SYN_RECEIVED, /* the peer's SYN has passed; the guest's answer is awaited */
	UC_TRANSLATING,  /* both ends have agreed on the connection */
};

/* The shadow's state, with names as in RFC 5681 and RFC 6582 (and Linux: Open, CWR, Recovery,
 * Loss). */
enum uc_ca_state {
	UC_CA_OPEN,
	UC_CA_CWR,      /* after a reduction on ECE, until snd_una passes recover */
	UC_CA_RECOVERY, /* fast recovery */
	UC_CA_LOSS,     /* after a retransmission timeout */
};

/* How receivers report marks to senders in a flow (feedback.h). */
enum uc_way {
	UC_WAY_NONE,      /* the ends have not agreed on ECN */
	UC_WAY_CLASSIC,   /* RFC 3168 */
	UC_WAY_EXACT = 3, /* classic, and the peer is a DCTCP sender, which counts marked bytes */
};

/* uc_flow.feedback */
#define UC_FEEDBACK_WAY     0x03 /* enum uc_way */
#define UC_FEEDBACK_REDUCED 0x04 /* the guest's next new data get CWR */
#define UC_FEEDBACK_MARKED  0x08 /* the guest's ACKs get ECE until the peer's CWR */

/* uc_flow.bits */
#define UC_FLOW_SACK       0x0001 /* both ends may use SACK: the guest recovers by RFC 6675 */
#define UC_FLOW_TIMESTAMPS 0x0002
#define UC_FLOW_LIMITED    0x0010 /* the guest filled the window: growth is allowed */
#define UC_FLOW_TIMED      0x0020 /* timed_seq waits for its ACK */
#define UC_FLOW_FIN_GUEST  0x0040
#define UC_FLOW_FIN_PEER   0x0080
#define UC_FLOW_RESET      0x0100
#define UC_FLOW_TIMED_OUT  0x0200  /* ssthresh was set by a timeout of the segment at snd_una */
#define UC_FLOW_WSCALE     0x0400  /* the sender of the SYN offered window scaling */
#define UC_FLOW_NODELAY    0x0800  /* two sub-MSS segments are in flight at once: no Nagle */
#define UC_FLOW_PAIRS      0x1000  /* window.h: the guest sends pairs, and no part of a third */
#define UC_FLOW_BULK       0x2000  /* window.h: the guest sends three segments in one burst */
#define UC_FLOW_HOLE       0x4000  /* hole_seq is a segment that later ones overtook */
#define UC_FLOW_PROBED     0x8000  /* a byte at snd_nxt went into a closed window */
#define UC_FLOW_RUNTS      0x10000 /* window.h: a sub-MSS segment of the guest filled a window */
#define UC_FLOW_LEAVES     0x20000 /* leave.h: its port drains */
#define UC_FLOW_GIVEN      0x80000 /* a window was advertised: furthest_edge is valid */
/* Bits of flows that share a window: laws/coupled.h. */
#define UC_FLOW_STALLED   0x100000 /* a timeout that was not reported to the group yet */
#define UC_FLOW_AWAITS    0x200000 /* the last segment's window waits for the group's answer */
#define UC_FLOW_DUPLICATE 0x400000 /* the last segment is a duplicate ACK */
/* Bits of the handshake, and of a SYN into a live flow: reopen.h. */
#define UC_FLOW_ANSWERED    0x800000   /* the peer has acknowledged the guest's SYN or SYN-ACK */
#define UC_FLOW_GUEST_ASKED 0x1000000  /* an unanswered SYN of the guest is stored */
#define UC_FLOW_PEER_ASKED  0x2000000  /* an unanswered SYN of the peer is stored */
#define UC_FLOW_RESENT      0x4000000  /* the guest has retransmitted at snd_una */
#define UC_FLOW_BLIND       0x8000000  /* missed.h: data has passed without an ACK of the peer */
#define UC_FLOW_UNSURE      0x10000000 /* the guest's numbers are still open: handshake.h */
#define UC_FLOW_HELD        0x20000000 /* no window is written: uc_only_echoes(), strict.h */
#define UC_FLOW_ADOPTED     0x40000000 /* its handshake was not seen: nothing is written */
#define UC_FLOW_OVERRAN     0x80000000 /* guard.h: data went beyond the furthest edge */

/* Options that SYNs with one sequence number have offered. */
#define UC_FLOW_OFFERS (UC_FLOW_WSCALE | UC_FLOW_SACK | UC_FLOW_TIMESTAMPS)

/* Returns which of UC_FLOW_OFFERS a SYN makes by its options, UC_OPT_*. The bits of SACK and
 * timestamps are neighbours in both encodings. */
static __always_inline __u32 uc_flow_offers(__u8 options)
{
	return (options / UC_OPT_SACK & (UC_FLOW_SACK | UC_FLOW_TIMESTAMPS)) |
	       (options & UC_OPT_WSCALE) * (UC_FLOW_WSCALE / UC_OPT_WSCALE);
}

#define UC_INFINITE_SSTHRESH 0x7fffffff

/* Proportional rate reduction (RFC 6937) of profile `linux`. After a timeout, in each profile, the
 * values that are restored if the timeout was spurious: undo.h. */
struct uc_prr {
	__u32 prior_cwnd;
	__u32 delivered;
	__u32 out;
};

/* NewReno's variables. cwnd, ssthresh and acked count bytes, or whole segments where
 * uc_counts_segments(). */
struct uc_reno {
	__u32 cwnd;
	__u32 ssthresh;
	__u32 acked;   /* towards the next step of congestion avoidance */
	__u32 recover; /* RFC 6582; profile `linux`: the end of any reduction */
	/* if cwnd counts bytes: the law has reacted to ECE up to this sequence number; if it counts
	 * segments: the largest flight of the window that ends at usage_seq */
	__u32 reduced_seq;
	struct uc_prr prr;
	__u32 usage_seq; /* the end of the window of data whose largest flight is recorded, for
			  * congestion window validation */
};

/* The variables of RFC 8257 §3.3; α in 1/2^30. */
struct uc_dctcp {
	__u32 alpha_q30;
	__u32 acked_bytes; /* acknowledged in the observation window, which ends at window_end */
	__u32 marked_bytes;
	__u32 window_end;
};

/* The number of segments of a window that are timed (rtt.h). */
#define UC_TIMERS 4

/* The timer of one segment in flight; free if `end` is not after snd_una. */
struct uc_timer {
	__u32 end;   /* the sequence number after the segment */
	__u32 at_us; /* when the segment passed, in µs; wraps */
};

struct uc_delay {
	struct uc_timer timers[UC_TIMERS];
	__u32 last_us;   /* the last round-trip time since the last decrease; 0: none */
	__u32 before_us; /* the round-trip time measured before last_us, since that decrease; 0:
			  * none */
};

/* State between two reports to the group (laws/coupled.h). */
struct uc_coupled {
	__u32 given_bytes;  /* the group's last answer; 0 during loss recovery */
	__s32 beyond_bytes; /* cwnd, which counts whole segments, minus given_bytes */
	__u32 acked_bytes;  /* acknowledged since the last report */
	__u32 events;       /* losses and cuts that were reported */
	struct uc_ccc_segments segments;
	__u32 max_flight; /* if cwnd counts bytes: the largest flight, in bytes, of the window that
			   * ends at usage_seq */
};

/* The test of the path's ECN that is under way (distrust.h): the low two bits of uc_flow.trial. The
 * upper six are a count, whose meaning depends on the test. */
enum uc_trial {
	UC_TRIAL_NONE,    /* no test; count: reductions in a row, no ACK without ECE between */
	UC_TRIAL_LOST,    /* ECT data may be lost; count: segments not retransmitted yet */
	UC_TRIAL_MARKED,  /* data from trial_at on has no ECT; count: 1 after a retransmission */
	UC_TRIAL_VERDICT, /* the test has ended; count: enum uc_remote_news */
};

#define UC_TRIAL_COUNT_MAX 63

/* The state of a flow. Other versions of uc read its fields by their names: a field whose meaning
 * changes gets another name, and a new field means "not known" where it is 0. */
struct uc_flow {
	__u64 seen_ns; /* when the flow's last segment passed, in either direction: uc_is_stale() */

	/* the guest's data, as the host sees it pass */
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 edge;          /* the right edge that was last advertised to the guest */
	__u32 furthest_edge; /* the furthest right edge advertised so far: guard.h */
	__u32 timed_seq;     /* UC_FLOW_TIMED: the end of the segment that is timed */
	__u32 timed_tick;    /* when that segment passed (since.h); during the handshake, when the
			      * guest's SYN passed; 0: not known */
	__u32 sent_tick;     /* when the guest's last data passed; 0: none yet */
	__u32 srtt_us;       /* smoothed round-trip time ×8 (RFC 6298) */
	__u32 rttvar_us;     /* its variation ×4 */
	__u32 runt_seq;      /* the end of the last new sub-MSS segment */
	__u32 hole_seq;      /* UC_FLOW_HOLE: the overtaken segment's start, or that of data refused
			   * with a SYN */
	__u32 resent_end;    /* the end of the guest's retransmissions since its timer fired */
	/* distrust.h: during a test, and while ecn_lost is not 0, a sequence number; otherwise the
	 * smallest round-trip time in µs, ~0: none yet, 0: marks are not tested */
	__u32 trial_at;

	struct uc_reno reno;
	struct uc_dctcp dctcp; /* the near room: of law `dctcp`, or of any law without UC_FAR */

	/* the receiving side: feedback.h */
	__u32 echoed_ack;      /* the guest's last ACK */
	__u32 peer_nxt;        /* the end of the peer's data and FIN that passed: acceptable.h */
	__s32 echo_owed_bytes; /* marked bytes not echoed yet; below 0: echoed in advance */

	/* counts that `uc flows` shows */
	__u32 cuts;   /* reductions on ECE, or on delay */
	__u32 losses; /* fast retransmits and timeouts seen */
	__u32 marks;  /* data segments to the guest whose CE was cleared */

	__u32 bits; /* UC_FLOW_* */

	__u16 mss_bytes;           /* payload of a full segment of the guest, as observed; not 0 */
	__u16 mss_agreed_bytes;    /* the maximum of mss_bytes, by the options of both ends */
	__u16 mss_candidate_bytes; /* a smaller payload that may be the new MSS */
	__u16 acked_bytes;         /* acknowledged, not yet counted as a whole segment */
	__u16 peer_window;         /* window field of the last ACK to the guest, before the edit */
	__u16 given_window;        /* the same field after the edit */
	__u16 runt_short_bytes;    /* mss_bytes minus the payload of the segment at runt_seq */
	__u16 repeated;            /* evidence of a hole at snd_una: uc_note_repeated(); 0: none */
	__u8 mss_candidate_seen;   /* how often mss_candidate_bytes came in a row */
	__u8 offered;              /* uc_offered_segments() and uc_piece_segments() */
	__u8 handshake;            /* uc_wscale() and uc_syns() */
	__u8 feedback;             /* UC_FEEDBACK_* */
	__u8 stage;                /* enum uc_stage */
	__u8 ca;                   /* enum uc_ca_state */
	__u8 dup_acks;
	__u8 backoffs;     /* timeouts since the last round-trip time was measured, in profile `rfc`
			    * and law `delay` */
	__u8 trial;        /* enum uc_trial, and a count */
	__u8 ecn_lost;     /* ECT segments lost in a row, none delivered between: distrust.h */
	__u8 guest_window; /* the guest's largest advertised window, coded: acceptable.h */
	__u8 share; /* the flow's weight in a sum of windows, 1 to 255, which the platform sets
		     * after uc_open(); 0: the law alone decides (laws/coupled.h) */
	struct uc_policy policy; /* the parameters may store a SYN: reopen.h */
	/* The index of the annex, set by the platform. Without an annex, a SYN may lie here. */
	__u32 annex_at;
};

/*
 * Two areas of fixed size for a law's own state: the near room in the flow, and the far room in its
 * annex. A law has one of them, with trait UC_FAR the far room. With trait UC_TIMED the far room
 * begins with the timers of rtt.h. A law from outside the tree defines structs of its own for its
 * state and its parameters, with __attribute__((may_alias)). Rows of table.h give their sizes.
 */
#define UC_NEAR_BYTES 16
#define UC_FAR_BYTES  64

/*
 * State of flows for which uc_has_annex() holds. The platform passes it to the core with its flow.
 * With other flows it may pass the flow's own memory: the core then clears the annex only where it
 * writes the whole flow afterwards (uc_begin()).
 */
struct uc_annex {
	struct uc_delay delay; /* the far room: of law `delay`, or of any law with UC_FAR */
	__u8 far_rest[UC_FAR_BYTES - sizeof(struct uc_delay)];
	struct uc_coupled coupled;
} __attribute__((may_alias));

/* A flow with its annex, for platforms that keep them together. */
struct uc_whole {
	struct uc_flow flow;
	struct uc_annex annex;
};

_Static_assert(sizeof(struct uc_dctcp) == UC_NEAR_BYTES, "the size of the near room is fixed");
_Static_assert(sizeof(struct uc_policy) == 20, "the size of a policy is fixed");
_Static_assert(sizeof(struct uc_segment) == 24,
	       "the contract with the platforms: size of uc_segment");
_Static_assert(sizeof(struct uc_flow) == 192,
	       "a flow and 64 bytes of its platform must fill four cache lines");
_Static_assert(sizeof(struct uc_annex) <= sizeof(struct uc_flow),
	       "an annex must fit into the place of a flow");

/* Returns the size of the last advertised window in segments; 15: 15 or more. */
static __always_inline __u32 uc_offered_segments(const struct uc_flow *flow)
{
	return flow->offered & 15;
}

/* Returns how many new segments the guest has sent since the last advertised window and since the
 * last PSH; 15: 15 or more. */
static __always_inline __u32 uc_piece_segments(const struct uc_flow *flow)
{
	return flow->offered >> 4;
}

static __always_inline void uc_set_offered(struct uc_flow *flow, __u32 offered, __u32 piece)
{
	flow->offered = uc_min(offered, 15) | uc_min(piece, 15) << 4;
}

/* Returns the scale of the peer's windows, at most UC_WSCALE_MAX. */
static __always_inline __u8 uc_wscale(const struct uc_flow *flow)
{
	return flow->handshake & 15;
}

/* Returns how many SYNs the guest has sent; 15: 15 or more. */
static __always_inline __u8 uc_syns(const struct uc_flow *flow)
{
	return flow->handshake >> 4;
}

static __always_inline void uc_set_handshake(struct uc_flow *flow, __u32 wscale, __u32 syns)
{
	flow->handshake = uc_min(wscale, UC_WSCALE_MAX) | uc_min(syns, 15) << 4;
}

/* Returns the near room, UC_NEAR_BYTES of zeroes in a new flow. */
static __always_inline void *uc_near(struct uc_flow *flow)
{
	return &flow->dctcp;
}

/* Returns the far room, UC_FAR_BYTES; what it holds before the law has opened means nothing. */
static __always_inline void *uc_far(struct uc_annex *annex)
{
	return &annex->delay;
}

/* Returns the parameters of the flow's law, UC_PARAMETERS_BYTES, for laws from outside the tree. */
static __always_inline const void *uc_parameters(const struct uc_flow *flow)
{
	return &flow->policy.parameters;
}

/* Returns the near room for reading. */
static __always_inline const void *uc_near_read(const struct uc_flow *flow)
{
	return &flow->dctcp;
}

static __always_inline __u8 uc_trial_of(const struct uc_flow *flow)
{
	return flow->trial & 3;
}

static __always_inline __u8 uc_trial_count(const struct uc_flow *flow)
{
	return flow->trial >> 2;
}

static __always_inline void uc_set_trial(struct uc_flow *flow, enum uc_trial trial, __u32 count)
{
	flow->trial = trial | uc_min(count, UC_TRIAL_COUNT_MAX) << 2;
}

/* Returns 1 if the flow shares a window. An observed flow does not: its port writes no window. */
static __always_inline __u8 uc_is_coupled(const struct uc_flow *flow)
{
	return (uc_law_has(flow->policy.law, UC_GROUPED) || flow->share) &&
	       !uc_observes(&flow->policy);
}

/* Returns 1 if flows of a policy have an annex. `share`: uc_flow.share. */
static __always_inline __u8 uc_needs_annex(const struct uc_policy *policy, __u8 share)
{
	return uc_law_has(policy->law, UC_FAR) |
	       ((uc_law_has(policy->law, UC_GROUPED) | !!share) & !uc_observes(policy));
}

/* Returns 1 if the flow has an annex. */
static __always_inline __u8 uc_has_annex(const struct uc_flow *flow)
{
	return uc_needs_annex(&flow->policy, flow->share);
}

/* Returns whether the port only echoes the peer's marks for the flow: no window is written
 * (UC_FLOW_HELD), and no guard limits the guest by drops instead, or the flow leaves
 * translation. */
static __always_inline __u8 uc_only_echoes(const struct uc_flow *flow)
{
	return flow->bits & UC_FLOW_HELD &&
	       (flow->bits & UC_FLOW_LEAVES || !uc_guard_segments(&flow->policy));
}

static __always_inline enum uc_way uc_way_of(const struct uc_flow *flow)
{
	return (enum uc_way)(flow->feedback & UC_FEEDBACK_WAY);
}

/* Returns 1 if both ends have agreed on ECN. Written without a branch for the kernel's verifier,
 * like uc_guard_segments(). */
static __always_inline __u8 uc_has_feedback(const struct uc_flow *flow)
{
	return flow->feedback & UC_WAY_CLASSIC;
}

/* Returns whether the guest's new data get ECT: both ends have agreed on ECN, and the law can
 * answer a mark. */
static __always_inline __u8 uc_sends_ect(const struct uc_flow *flow)
{
	return uc_has_feedback(flow) && !(flow->policy.modes & UC_MODE_NO_ECT);
}

/* Returns 1 if the host has seen the end of the connection: a reset, or a FIN of both ends. */
static __always_inline __u8 uc_is_closed(const struct uc_flow *flow)
{
	__u32 both = UC_FLOW_FIN_GUEST | UC_FLOW_FIN_PEER;

	return flow->bits & UC_FLOW_RESET || (flow->bits & both) == both;
}

/*
 * Returns 1 if the flow leaves its group because the connection has ended. Under a guard a flow
 * never leaves: by RSTs that its peer never gets, a guest could leave the group and return with the
 * window of a new flow. The group does not count a flow that was silent for an epoch, so a closed
 * flow keeps its share no longer than an epoch.
 */
static __always_inline __u8 uc_leaves_group(const struct uc_flow *flow)
{
	return uc_is_closed(flow) && !uc_guard_segments(&flow->policy);
}

/* Returns 1 if the flow's cwnd and ssthresh count whole segments, 0 if bytes. */
static __always_inline __u8 uc_counts_segments(const struct uc_flow *flow)
{
	return flow->policy.profile == UC_PROFILE_LINUX && !uc_law_has(flow->policy.law, UC_BYTES);
}

/* Returns the bytes that the guest has sent and the peer has not acknowledged. */
static __always_inline __u32 uc_flight_bytes(const struct uc_flow *flow)
{
	return flow->snd_nxt - flow->snd_una;
}

/* Returns the microseconds since the guest last sent data. */
static __always_inline __u64 uc_idle_us(const struct uc_flow *flow, __u64 now_ns)
{
	return uc_since_tick_ns(now_ns, flow->sent_tick, UC_IDLE_TICK_SHIFT) / 1000;
}

/* Returns the nanoseconds since the timed segment (timed_tick) has passed. */
static __always_inline __u64 uc_timed_ns(const struct uc_flow *flow, __u64 now_ns)
{
	return uc_since_tick_ns(now_ns, flow->timed_tick, UC_RTT_TICK_SHIFT);
}

/* Returns the bytes in flight, converted to segments and rounded up. */
static __always_inline __u32 uc_flight_segments(const struct uc_flow *flow)
{
	/* mss_bytes is never 0 (handshake.h); "| !mss" tells the compiler and costs nothing */
	__u32 mss = flow->mss_bytes | !flow->mss_bytes;

	return (uc_flight_bytes(flow) + mss - 1) / mss;
}

/* Returns 1 until the peer has acknowledged the guest's SYN or SYN-ACK. The guest's answer to a SYN
 * is not enough: forged SYNs get one, too. Nor is any ACK while UC_FLOW_UNSURE is set. */
static __always_inline __u8 uc_is_half_open(const struct uc_flow *flow)
{
	return flow->stage != UC_TRANSLATING ||
	       (flow->bits & (UC_FLOW_ANSWERED | UC_FLOW_UNSURE)) != UC_FLOW_ANSWERED;
}

/*
 * How long an idle flow keeps its place in the table. The first five values are those of Linux's
 * connection tracking (nf_conntrack_tcp_timeout_…): in order time_wait halved, syn_sent, syn_recv,
 * fin_wait and unacknowledged. The next is kube-proxy's for close_wait: a peer may be silent that
 * long before it answers a half-closed request. The last is the minimum of RFC 5382 §5 for a NAT:
 * 2 h 4 min.
 */
#define UC_IDLE_CLOSED_NS     60000000000ULL   /* a RST was seen, or both FINs */
#define UC_IDLE_HANDSHAKE_NS  120000000000ULL  /* the guest's SYN has no answer */
#define UC_IDLE_ANSWERED_NS   60000000000ULL   /* the guest's SYN-ACK has no answer */
#define UC_IDLE_CLOSING_NS    120000000000ULL  /* one end has sent a FIN */
#define UC_IDLE_UNACKED_NS    300000000000ULL  /* data in flight, not retransmitted any more */
#define UC_IDLE_OWING_NS      3600000000000ULL /* the guest has sent a FIN, the peer sends ECT */
#define UC_IDLE_TRANSLATED_NS 7440000000000ULL /* nothing in flight */

/* Returns how long a flow in its present state may be idle. */
static __always_inline __u64 uc_idle_max_ns(const struct uc_flow *flow)
{
	if (uc_is_closed(flow))
		return UC_IDLE_CLOSED_NS;
	if (flow->stage == UC_SYN_SENT)
		return UC_IDLE_HANDSHAKE_NS;
	if (uc_is_half_open(flow))
		return UC_IDLE_ANSWERED_NS;
	if (flow->bits & UC_FLOW_FIN_PEER ||
	    (flow->bits & UC_FLOW_FIN_GUEST && !uc_has_feedback(flow)))
		return UC_IDLE_CLOSING_NS;
	if (flow->bits & UC_FLOW_FIN_GUEST && !uc_flight_bytes(flow))
		return UC_IDLE_OWING_NS;
	/* a sender retransmits, or probes, every 2 min at least (Linux; RFC 6298 §2.5: 60 s or
	 * more); a sender that was silent longer has given up */
	return uc_flight_bytes(flow) ? UC_IDLE_UNACKED_NS : UC_IDLE_TRANSLATED_NS;
}

/* Returns 1 if an idle flow may lose its place in the table. */
static __always_inline __u8 uc_is_stale(const struct uc_flow *flow, __u64 now_ns)
{
	return uc_since_ns(now_ns, flow->seen_ns) > uc_idle_max_ns(flow);
}

/* Returns 1 if one end has sent a SYN and waits for the other's answer. */
static __always_inline __u8 uc_waits(const struct uc_flow *flow, __u64 now_ns)
{
	return uc_syns(flow) && flow->stage != UC_TRANSLATING && !uc_is_stale(flow, now_ns);
}

/* Returns 1 if both ends have agreed on the connection and may still have it. */
static __always_inline __u8 uc_is_live(const struct uc_flow *flow, __u64 now_ns)
{
	return flow->stage == UC_TRANSLATING && !uc_is_stale(flow, now_ns);
}

#endif
