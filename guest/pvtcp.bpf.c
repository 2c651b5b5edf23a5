/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * PVTCP for guests that allow BPF but no module. BPF can't defer a timer, so it can't prevent a
 * timeout that a stall has made due; it makes the next ones less likely. Two programs:
 *
 *   at a tick      measures how late the tick is; an idle processor programs no tick
 *   at a socket    sets its minimum RTO: small, but longer than the stalls while there are any
 *
 * Linux applies the minimum RTO in one place, the estimator of the variation (tcp_rtt_estimator):
 * the minimum in force when a round trip ends is that of the next one's variation. So raising the
 * minimum doesn't raise an RTO at once. Stalled round trips raise it, by four times their
 * deviation, and a raised minimum keeps it there until the next stall; with a small one it would
 * fall back within ten round trips (by RFC 6298 §2.3 a quarter each). A lowered minimum takes
 * effect as slowly.
 *
 * docs/pvtcp.md lists the limits of this.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "../core/since.h"
#include "pvtcp.h"

#define SOL_TCP   6
#define NS_PER_US 1000ULL
#define US_PER_MS 1000ULL
/* How long after a stall's end a timeout counts as "after a stall": covers the timer's slack, and
 * the end of a softirq that the stall interrupted. */
#define ECHO_NS 20000000ULL

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct timerqueue_node {
	__s64 expires;
};

struct hrtimer {
	struct timerqueue_node node;
	void *function;
};

#pragma clang attribute pop

/* The tick's handler, by the name of Linux up to 6.7, of 6.8, and of 6.9 and later. */
extern const void tick_sched_timer __ksym __weak;
extern const void tick_nohz_highres_handler __ksym __weak;
extern const void tick_nohz_handler __ksym __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_pvtcp_policy);
} policies SEC(".maps");

/* Stalls, written by all processors without a lock: of two stalls at once one may be lost. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_pvtcp_stalls);
} stalls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_pvtcp_counts);
} counts SEC(".maps");

/* The minimum RTO of each socket, in microseconds; it is freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} sockets SEC(".maps");

/* Returns whether a timer's function is the tick's handler. */
static __always_inline bool is_tick(const void *function)
{
	if (&tick_sched_timer && function == &tick_sched_timer)
		return true;
	if (&tick_nohz_highres_handler && function == &tick_nohz_highres_handler)
		return true;
	return &tick_nohz_handler && function == &tick_nohz_handler;
}

/*
 * Records a stall. seen->longest_us is the longest recent stall. Each shorter stall reduces it by an
 * eighth of the difference, so a single long stall, such as a migration, loses its effect.
 */
static __always_inline void heard(struct uc_pvtcp_stalls *seen,
				  const struct uc_pvtcp_policy *policy, __u64 now_ns, __u64 late_us)
{
	__u64 longest_us = seen->longest_us;

	if (uc_since_ns(now_ns, seen->last_ns) > policy->hold_ms * US_PER_MS * NS_PER_US)
		longest_us = 0;
	if (late_us < longest_us)
		late_us = longest_us - ((longest_us - late_us) >> 3);
	seen->longest_us = late_us;
	seen->last_ns = now_ns;
	__sync_fetch_and_add(&seen->count, 1);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(uc_pvtcp_tick, struct hrtimer *timer, __s64 *now)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct uc_pvtcp_policy *policy;
	struct uc_pvtcp_stalls *seen;
	__u64 late_us;
	__u32 key = 0;

	/* the tick's clock is CLOCK_MONOTONIC */
	if (!is_tick(BPF_CORE_READ(timer, function)) || (__s64)now_ns <= timer->node.expires)
		return 0;
	policy = bpf_map_lookup_elem(&policies, &key);
	seen = bpf_map_lookup_elem(&stalls, &key);
	late_us = (now_ns - timer->node.expires) / NS_PER_US;
	if (policy && seen && late_us >= policy->late_us)
		heard(seen, policy, now_ns, late_us);
	return 0;
}

/* Returns the minimum RTO in µs that a socket should have: policy->least_us, and until hold_ms after
 * the last stall also the longest stall, so that a timer armed just before a stall outlasts it. */
static __always_inline __u32 wanted_us(const struct uc_pvtcp_policy *policy,
				       const struct uc_pvtcp_stalls *seen, __u64 now_ns)
{
	__u64 wanted = policy->least_us;

	if (seen->count &&
	    uc_since_ns(now_ns, seen->last_ns) <= policy->hold_ms * US_PER_MS * NS_PER_US)
		wanted += seen->longest_us;
	return wanted < UC_PVTCP_MOST_US ? wanted : UC_PVTCP_MOST_US;
}

/* Returns whether to change a socket's minimum RTO from has_us (0: not set yet) to wanted: it is
 * raised at once, but lowered only by more than a quarter, so not after each stall. */
static __always_inline bool is_due(__u32 has_us, __u32 wanted)
{
	return wanted > has_us || wanted < has_us - (has_us >> 2);
}

static __always_inline void set_least(struct bpf_sock_ops *ops, struct uc_pvtcp_counts *count,
				      __u32 *has_us, int wanted)
{
	if (bpf_setsockopt(ops, SOL_TCP, TCP_BPF_RTO_MIN, &wanted, sizeof(wanted))) {
		__sync_fetch_and_add(&count->refused, 1);
		return;
	}
	if (!*has_us)
		__sync_fetch_and_add(&count->sockets, 1);
	else if ((__u32)wanted > *has_us)
		__sync_fetch_and_add(&count->raised, 1);
	else
		__sync_fetch_and_add(&count->lowered, 1);
	*has_us = wanted;
}

/* Updates a socket's minimum RTO and the counters. */
static __always_inline void look(struct bpf_sock_ops *ops, bool is_timeout)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct bpf_sock *sk = ops->sk;
	struct uc_pvtcp_policy *policy;
	struct uc_pvtcp_counts *count;
	struct uc_pvtcp_stalls *seen;
	__u32 key = 0, wanted, *has_us;

	if (!sk)
		return;
	has_us = bpf_sk_storage_get(&sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	policy = bpf_map_lookup_elem(&policies, &key);
	count = bpf_map_lookup_elem(&counts, &key);
	seen = bpf_map_lookup_elem(&stalls, &key);
	if (!has_us || !policy || !count || !seen)
		return;
	if (is_timeout) {
		__sync_fetch_and_add(&count->timeouts, 1);
		if (seen->count && uc_since_ns(now_ns, seen->last_ns) < ECHO_NS)
			__sync_fetch_and_add(&count->after_stall, 1);
	}
	wanted = wanted_us(policy, seen, now_ns);
	if (is_due(*has_us, wanted))
		set_least(ops, count, has_us, wanted);
}

SEC("sockops")
int uc_pvtcp_socket(struct bpf_sock_ops *ops)
{
	__u32 flags = ops->bpf_sock_ops_cb_flags;

	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		flags |= BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG;
		bpf_sock_ops_cb_flags_set(ops, flags);
		look(ops, false);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		look(ops, false);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		look(ops, true);
		break;
	default:
		break;
	}
	return 1;
}
