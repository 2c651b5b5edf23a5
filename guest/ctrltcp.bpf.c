/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ctrlTCP in one kernel: Reno and CUBIC whose connections to the same destination share one window,
 * whatever their number. Read docs/ctrltcp.md first: the controller's contract with platforms.
 *
 * The kernel's own Reno or CUBIC, called from here, computes as usual. The result is reported to
 * the group's controller (core/coupling.h) under the group's lock, and the answer replaces it. A
 * connection that finds no room in the tables is uncoupled TCP.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "ctrltcp.h"
#include "kernel.h"
#include "member.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
/* Weak symbols: without CUBIC in the kernel, the functions that call it are not loaded. */
extern void cubictcp_init(struct sock *sk) __ksym __weak;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym __weak;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym __weak;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym __weak;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym __weak;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym __weak;

/* Enters an established connection into its group. Its window is then the initial window. */
static __always_inline void begin(struct sock *sk)
{
	struct uc_ctrl *own;

	if (sk->__sk_common.skc_state == UC_TCP_CLOSE || sk->__sk_common.skc_state == UC_TCP_LISTEN)
		return;
	own = bpf_sk_storage_get(&connections, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!own || own->joined)
		return;
	name_group(sk, own);
	join(sk, own);
}

/*
 * Reports at each ACK during a reduction. The kernel calls no law then, but the group must know
 * that the connection is alive, and the reduction must end at the group's ssthresh.
 */
static __always_inline void hear_in_recovery(struct sock *sk)
{
	struct uc_ctrl *own = state_of(sk);

	if (own && (own->tcp_state == UC_TCP_CA_CWR || own->tcp_state == UC_TCP_CA_RECOVERY))
		update(sk, own);
}

/* Reports after the connection's law has computed; joins first if need be. */
static __always_inline void after_law(struct sock *sk)
{
	struct uc_ctrl *own = state_of(sk);

	if (!own)
		return;
	if (own->joined)
		update(sk, own);
	else
		join(sk, own);
}

/* Reports a change of the congestion state. The law has set snd_ssthresh for it already. */
static __always_inline void change_state(struct sock *sk, __u8 new_state)
{
	struct uc_ctrl *own = state_of(sk);

	if (!own)
		return;
	/* in Loss already: the timer has fired again (report_state() makes it BACKOFF) */
	own->tcp_state = new_state + (new_state == UC_TCP_CA_LOSS && own->tcp_state == new_state);
	if (new_state >= UC_TCP_CA_CWR)
		update(sk, own);
	own->tcp_state = new_state;
}

static __always_inline void end(struct sock *sk)
{
	struct uc_ctrl *own = state_of(sk);

	if (!own)
		return;
	leave(own);
	bpf_sk_storage_delete(&connections, sk);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrltcp_init, struct sock *sk)
{
	begin(sk);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrltcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
	after_law(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(uc_ctrltcp_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(uc_ctrltcp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrltcp_set_state, struct sock *sk, __u8 new_state)
{
	change_state(sk, new_state);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrltcp_in_ack_event, struct sock *sk, __u32 flags)
{
	hear_in_recovery(sk);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrltcp_release, struct sock *sk)
{
	end(sk);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrlcubic_init, struct sock *sk)
{
	cubictcp_init(sk);
	begin(sk);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrlcubic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
	after_law(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(uc_ctrlcubic_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrlcubic_set_state, struct sock *sk, __u8 new_state)
{
	cubictcp_state(sk, new_state);
	change_state(sk, new_state);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrlcubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops")
void BPF_PROG(uc_ctrlcubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

/* The coupled congestion controls: over Reno and over CUBIC. The loader may rename them, and leaves
 * out the second if the kernel has no CUBIC. */
SEC(".struct_ops.link")
struct tcp_congestion_ops uc_ctrltcp = {
	.init = (void *)uc_ctrltcp_init,
	.cong_avoid = (void *)uc_ctrltcp_cong_avoid,
	.ssthresh = (void *)uc_ctrltcp_ssthresh,
	.undo_cwnd = (void *)uc_ctrltcp_undo_cwnd,
	.set_state = (void *)uc_ctrltcp_set_state,
	.in_ack_event = (void *)uc_ctrltcp_in_ack_event,
	.release = (void *)uc_ctrltcp_release,
	.flags = UC_TCP_CONG_NON_RESTRICTED,
	.name = "uc_ctrltcp",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops uc_ctrlcubic = {
	.init = (void *)uc_ctrlcubic_init,
	.cong_avoid = (void *)uc_ctrlcubic_cong_avoid,
	.ssthresh = (void *)uc_ctrlcubic_ssthresh,
	.undo_cwnd = (void *)uc_ctrltcp_undo_cwnd,
	.set_state = (void *)uc_ctrlcubic_set_state,
	.cwnd_event = (void *)uc_ctrlcubic_cwnd_event,
	.pkts_acked = (void *)uc_ctrlcubic_pkts_acked,
	.in_ack_event = (void *)uc_ctrltcp_in_ack_event,
	.release = (void *)uc_ctrltcp_release,
	.flags = UC_TCP_CONG_NON_RESTRICTED,
	.name = "uc_ctrlcubic",
};
