/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sets the congestion control, the initial window and the minimum RTO of the connections that a
 * control group's processes open and accept.
 *
 * Congestion control and minimum RTO are set before the SYN, so that an offer of ECN and the first
 * round trip are those of the settings, and on a new listener, from which accepted connections
 * inherit both. They are set again when a connection is established: a listener may be older than
 * this program. The kernel computes the initial window just before that moment, so it is set there.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tune.h"

#define SOL_TCP        6
#define TCP_CONGESTION 13

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_tune_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_tune_counts);
} counts SEC(".maps");

/* Sets a socket option unless value is 0, and counts a refusal of the kernel. */
static __always_inline void set(struct bpf_sock_ops *ops, int option, __u32 value, __u64 *refused)
{
	if (value && bpf_setsockopt(ops, SOL_TCP, option, &value, sizeof(value)))
		__sync_fetch_and_add(refused, 1);
}

SEC("sockops")
int uc_tune_socket(struct bpf_sock_ops *ops)
{
	struct uc_tune_settings *wanted;
	struct uc_tune_counts *count;
	__u32 key = 0;

	wanted = bpf_map_lookup_elem(&settings, &key);
	count = bpf_map_lookup_elem(&counts, &key);
	if (!wanted || !count)
		return 1;
	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		__sync_fetch_and_add(&count->connections, 1);
		/* before the congestion control, which may compute a pacing rate from it */
		set(ops, TCP_BPF_IW, wanted->initial_window_segments,
		    &count->refused_initial_window);
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		break;
	default:
		return 1;
	}
	set(ops, TCP_BPF_RTO_MIN, wanted->rto_min_us, &count->refused_rto_min);
	if (wanted->congestion_control[0] &&
	    bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, wanted->congestion_control,
			   UC_TUNE_NAME_BYTES))
		__sync_fetch_and_add(&count->refused_congestion_control, 1);
	return 1;
}
