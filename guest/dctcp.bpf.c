/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * DCTCP as a guest's own congestion control, for kernels without tcp_dctcp. Read RFC 8257 first,
 * then the kernel's struct tcp_congestion_ops, which documents when each function is called.
 *
 * Bytes are counted as in the RFC: by SND.UNA, when they are acknowledged. The host's law `dctcp`
 * was written from the same RFC; the two share no code, so that each can be compared with the
 * other.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "dctcp.h"
#include "kernel.h"

#define ONE_Q30      (1U << 30)
#define GAIN_SHIFT   4 /* g = 1/16, RFC 8257 §4.2 */
#define CWND_MINIMUM 2 /* segments, as Linux has it */

#define SOL_TCP        6
#define TCP_CONGESTION 13

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* State by socket; it is freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct uc_dctcp);
} connections SEC(".maps");

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct uc_dctcp *state_of(struct sock *sk)
{
	return bpf_sk_storage_get(&connections, sk, NULL, 0);
}

static __always_inline bool is_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* Switches a connection without ECN to NewReno, as RFC 8257 §3.1 refers to RFC 3168. */
static __always_inline void fall_back(struct sock *sk)
{
	char reno[] = "reno";

	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

SEC("struct_ops")
void BPF_PROG(uc_dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u8 state = sk->__sk_common.skc_state;
	struct uc_dctcp *flow;

	if (!(tp->ecn_flags & UC_TCP_ECN_OK) && state != UC_TCP_CLOSE && state != UC_TCP_LISTEN)
		return fall_back(sk);
	flow = bpf_sk_storage_get(&connections, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return fall_back(sk);
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->alpha_q30 = ONE_Q30; /* RFC 8257 §4.2 */
	flow->window_end = tp->snd_nxt;
	flow->counted = tp->snd_una;
	flow->echoed_to = tp->rcv_nxt;
}

/*
 * Counts the bytes of an ACK and updates alpha (RFC 8257 §3.3, steps 1 to 8). The ACK may cover
 * marked and unmarked bytes; its ECE counts for all of them. The kernel calls this before it
 * reduces the window for the same ACK.
 */
SEC("struct_ops")
void BPF_PROG(uc_dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct uc_dctcp *flow = state_of(sk);
	__u32 una = tp->snd_una;
	__u32 bytes, fraction_q30;

	if (!flow || !is_after(una, flow->counted))
		return;
	bytes = una - flow->counted;
	flow->counted = una;
	flow->acked_bytes += bytes;
	flow->total_acked_bytes += bytes;
	if (flags & UC_CA_ACK_ECE) {
		flow->marked_bytes += bytes;
		flow->total_marked_bytes += bytes;
	}
	if (!is_after(una, flow->window_end))
		return;
	/* step 6: M = marked / acked, both counted since the last window ended, so M <= 1 */
	fraction_q30 = (__u32)(((__u64)flow->marked_bytes << 30) / flow->acked_bytes);
	/* step 7: alpha = alpha * (1 - g) + g * M */
	flow->alpha_q30 -= flow->alpha_q30 >> GAIN_SHIFT;
	flow->alpha_q30 += fraction_q30 >> GAIN_SHIFT;
	/* step 8 */
	flow->window_end = tp->snd_nxt;
	flow->acked_bytes = 0;
	flow->marked_bytes = 0;
	flow->windows++;
}

/*
 * Returns ssthresh = cwnd * (1 - alpha / 2) (step 9). Linux reduces cwnd to it over a round trip
 * (RFC 6937). The kernel calls this for losses, too; set_state completes their reduction.
 */
SEC("struct_ops")
__u32 BPF_PROG(uc_dctcp_ssthresh, struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;
	struct uc_dctcp *flow = state_of(sk);
	__u32 cut;

	if (!flow)
		return cwnd / 2 > CWND_MINIMUM ? cwnd / 2 : CWND_MINIMUM;
	cut = (__u32)(((__u64)cwnd * flow->alpha_q30) >> 31);
	flow->reductions++;
	return cwnd - cut > CWND_MINIMUM ? cwnd - cut : CWND_MINIMUM;
}

/*
 * Halves the window for a loss (RFC 8257 §3.5), whatever alpha is. During a smaller reduction for
 * marks it halves the window from before that reduction.
 */
SEC("struct_ops")
void BPF_PROG(uc_dctcp_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 half = tp->prior_cwnd / 2;

	if (new_state != UC_TCP_CA_RECOVERY && new_state != UC_TCP_CA_LOSS)
		return;
	if (half < CWND_MINIMUM)
		half = CWND_MINIMUM;
	if (half < tp->snd_ssthresh)
		tp->snd_ssthresh = half;
}

/* Sets whether the next ACKs carry ECE (tcp_ecn_send()). */
static __always_inline void echo(struct tcp_sock *tp, __u32 ce)
{
	if (ce)
		tp->ecn_flags |= UC_TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~UC_TCP_ECN_DEMAND_CWR;
}

/*
 * Updates the echo for each segment that arrives, before it is accepted (RFC 8257 §3.2). When marks
 * begin or end, a delayed ACK is sent first, with the old echo, for the segments before; the next
 * ACK isn't delayed either.
 */
SEC("struct_ops")
void BPF_PROG(uc_dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct uc_dctcp *flow;
	__u32 ce;

	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_IS_CE))
		ce = 1;
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_NO_CE))
		ce = 0;
	else
		return;
	flow = state_of(sk);
	if (!flow)
		return;
	if (flow->ce != ce) {
		if (tp->inet_conn.icsk_ack.pending & UC_ICSK_ACK_TIMER) {
			echo(tp, flow->ce);
			bpf_tcp_send_ack(tp, flow->echoed_to);
		}
		tp->inet_conn.icsk_ack.pending |= UC_ICSK_ACK_NOW;
		flow->transitions++;
	}
	flow->echoed_to = tp->rcv_nxt;
	flow->ce = ce;
	echo(tp, ce);
}

/* Restores the window after a loss that turned out to be none. */
SEC("struct_ops")
__u32 BPF_PROG(uc_dctcp_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

/* Grows the window as NewReno, by the kernel's own function (RFC 8257 §3.4). */
SEC("struct_ops")
void BPF_PROG(uc_dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

/* The congestion control; the loader may rename it. */
SEC(".struct_ops.link")
struct tcp_congestion_ops uc_dctcp = {
	.init = (void *)uc_dctcp_init,
	.in_ack_event = (void *)uc_dctcp_in_ack_event,
	.ssthresh = (void *)uc_dctcp_ssthresh,
	.set_state = (void *)uc_dctcp_set_state,
	.cwnd_event = (void *)uc_dctcp_cwnd_event,
	.undo_cwnd = (void *)uc_dctcp_undo_cwnd,
	.cong_avoid = (void *)uc_dctcp_cong_avoid,
	.flags = UC_TCP_CONG_NON_RESTRICTED | UC_TCP_CONG_NEEDS_ECN,
	.name = "uc_dctcp",
};
