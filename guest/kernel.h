/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of Linux's TCP that a guest's congestion control uses, by name. Their offsets come from
 * the BTF of the kernel that loads the program (CO-RE), so one build works for kernels of any
 * layout.
 */
#ifndef UC_GUEST_KERNEL_H
#define UC_GUEST_KERNEL_H

#include <stdbool.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;
	__u16 skc_dport;
	__u16 skc_num; /* the local port, in the host's order */
	__u16 skc_family;
	__u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
};

struct rb_node {
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct sk_buff {
	struct rb_node rbnode;
	__u64 skb_mstamp_ns; /* when TCP last sent the segment */
};

struct sock {
	struct sock_common __sk_common;
	struct rb_root tcp_rtx_queue; /* segments that are not acknowledged, by sequence number */
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
	__u32 snd_cwnd_clamp;
	__u32 prior_cwnd; /* snd_cwnd before the reduction that is under way */
	__u32 packets_out;
	__u32 max_packets_out; /* maximum of packets_out in the last window */
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 mss_cache;
	__u32 srtt_us; /* in 1/8 µs */
	__u64 bytes_acked;
	__u8 is_cwnd_limited : 1;
	__u8 ecn_flags;
};

/* The kernel's sample of an ACK, which is passed on to CUBIC unchanged. */
struct ack_sample {
	__u32 pkts_acked;
};

#pragma clang attribute pop

/* Events of tcp_cwnd_event(). Their numbers are read from the running kernel's BTF. */
enum tcp_ca_event {
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

/* States of include/net/tcp_states.h; the kernel's BPF interface calls them BPF_TCP_*. */
#define UC_TCP_CLOSE  7
#define UC_TCP_LISTEN 10

/* The kernel's ssthresh of a connection without losses. */
#define UC_TCP_INFINITE_SSTHRESH 0x7fffffffU

#define UC_AF_INET6 10

/* Values of enum tcp_ca_state, which is part of the kernel's UAPI (tcp_info). */
#define UC_TCP_CA_CWR      2
#define UC_TCP_CA_RECOVERY 3
#define UC_TCP_CA_LOSS     4

/* Bits of icsk_ack.pending. */
#define UC_ICSK_ACK_TIMER 2
#define UC_ICSK_ACK_NOW   16

/* Bits of tcp_sock.ecn_flags. */
#define UC_TCP_ECN_OK         1
#define UC_TCP_ECN_DEMAND_CWR 4

/* Bits of in_ack_event's flags. */
#define UC_CA_ACK_ECE 4

/* Bits of tcp_congestion_ops.flags. */
#define UC_TCP_CONG_NON_RESTRICTED 1
#define UC_TCP_CONG_NEEDS_ECN      2

/* The members that are used here; libbpf moves each to the kernel's offset and sets others to 0. */
struct tcp_congestion_ops {
	char name[16]; /* first, where the loader finds it */
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 flags;
};

#endif
