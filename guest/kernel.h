/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of Linux' TCP that a guest's congestion control touches, by name: their places are
 * taken from the BTF of the kernel that loads the program (CO-RE), so neither a build nor another
 * kernel's layout matters.
 */
#ifndef UC_GUEST_KERNEL_H
#define UC_GUEST_KERNEL_H

#include <stdbool.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__u8 skc_state;
};

struct sock {
	struct sock_common __sk_common;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct {
		__u8 pending;
	} icsk_ack;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 prior_cwnd; /* when the reduction that goes on began */
	__u8 ecn_flags;
};

#pragma clang attribute pop

/* enum tcp_ca_event: their numbers are the running kernel's too */
enum tcp_ca_event {
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

/* include/net/tcp_states.h; the kernel's own BPF interface has them as BPF_TCP_* */
#define UC_TCP_CLOSE  7
#define UC_TCP_LISTEN 10

/* enum tcp_ca_state, which tcp_info shows to everybody */
#define UC_TCP_CA_RECOVERY 3
#define UC_TCP_CA_LOSS     4

/* bits of icsk_ack.pending */
#define UC_ICSK_ACK_TIMER 2
#define UC_ICSK_ACK_NOW   16

/* bits of tcp_sock.ecn_flags */
#define UC_TCP_ECN_OK         1
#define UC_TCP_ECN_DEMAND_CWR 4

/* bits of in_ack_event's flags */
#define UC_CA_ACK_ECE 4

/* bits of tcp_congestion_ops.flags */
#define UC_TCP_CONG_NON_RESTRICTED 1
#define UC_TCP_CONG_NEEDS_ECN      2

/* The members that are used; libbpf puts each in its place, and zero in the others. */
struct tcp_congestion_ops {
	char name[16]; /* first, where the loader finds it */
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	__u32 flags;
};

#endif
