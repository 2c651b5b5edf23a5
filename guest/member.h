/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A kernel connection as a member of its group: it joins, reports and leaves. Each call holds the
 * group's lock while the controller computes; the state of the kernel's TCP is read before and
 * written after.
 */
#ifndef UC_GUEST_MEMBER_H
#define UC_GUEST_MEMBER_H

#include "group.h"

/* Maximum number of attempts to join, one at each ACK, of a connection that finds tables full. */
#define REFUSALS_MAX 16
/* Maximum depth of the kernel's balanced tree of a connection's unacknowledged segments. */
#define RTX_DEPTH_MAX 48

/* State by socket; it is freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct uc_ctrl);
} connections SEC(".maps");

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct uc_ctrl *state_of(struct sock *sk)
{
	return bpf_sk_storage_get(&connections, sk, NULL, 0);
}

static __always_inline __u8 report_state(const struct tcp_sock *tp, const struct uc_ctrl *own)
{
	if (own->tcp_state >= UC_TCP_CA_LOSS)
		return own->tcp_state == UC_TCP_CA_LOSS ? UC_CCC_LOSS : UC_CCC_BACKOFF;
	if (own->tcp_state >= UC_TCP_CA_CWR)
		return UC_CCC_RECOVERY;
	return tp->snd_cwnd < tp->snd_ssthresh ? UC_CCC_SLOW_START : UC_CCC_AVOIDANCE;
}

/* Returns what the kernel's inline function tcp_is_cwnd_limited() does. */
static __always_inline bool is_cwnd_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Returns the time in µs, at least 1, since the first unacknowledged segment was last sent; 0: there
 * is none. */
static __noinline __u32 first_age_us(struct sock *sk, __u64 now_ns)
{
	struct rb_node *node = BPF_CORE_READ(sk, tcp_rtx_queue.rb_node), *first = NULL;
	__u64 sent_ns;
	int depth;

	for (depth = 0; node && depth < RTX_DEPTH_MAX; depth++) {
		first = node;
		node = BPF_CORE_READ(first, rb_left);
	}
	if (!first)
		return 0;
	first = (void *)first - bpf_core_field_offset(struct sk_buff, rbnode);
	sent_ns = BPF_CORE_READ((struct sk_buff *)first, skb_mstamp_ns);
	return uc_max64(uc_min64(uc_ccc_less(now_ns, sent_ns) / 1000, ~0U), 1);
}

/* Reads the connection's report from the kernel's TCP into own->report. */
static __always_inline void read_report(struct tcp_sock *tp, struct uc_ctrl *own)
{
	__u64 mss = uc_min64(tp->mss_cache, 65535), ssthresh = tp->snd_ssthresh;
	__s64 cwnd = (__s64)(tp->snd_cwnd * mss) - own->beyond_bytes;
	__u64 flight = tp->packets_out + tp->retrans_out;
	__u64 acked_bytes = tp->bytes_acked, now_ns = bpf_ktime_get_ns();
	struct uc_ccc_report report = {
		.ssthresh_bytes = uc_min64(ssthresh * mss, UC_CCC_INFINITE_SSTHRESH),
		.flight_bytes = uc_min64(uc_ccc_less(flight, tp->sacked_out + tp->lost_out) * mss,
					 UC_CCC_WINDOW_MAX_BYTES),
		.used_bytes = uc_min64(tp->max_packets_out * mss, UC_CCC_WINDOW_MAX_BYTES),
		.acked_bytes = uc_min64(uc_ccc_less(acked_bytes, own->acked_bytes),
					UC_CCC_WINDOW_MAX_BYTES),
		.srtt_us = tp->srtt_us,
		.mss_bytes = mss,
		.state = report_state(tp, own),
		.limited = !is_cwnd_limited(tp),
	};
	__u8 fired;

	/* Outside recovery no law here reduces a window. If it is smaller, the connection was idle
	 * (RFC 5681 §4.1) or its window was validated (RFC 7661). That doesn't reduce the group's
	 * window: other connections have used it meanwhile, and idle weight is released. */
	if (report.state < UC_CCC_RECOVERY && own->flow.state < UC_CCC_RECOVERY)
		cwnd = cwnd > own->flow.given_bytes ? cwnd : own->flow.given_bytes;
	report.cwnd_bytes = cwnd > 0 ? uc_min64(cwnd, UC_CCC_WINDOW_MAX_BYTES) : 0;
	/* the timer was restarted by the last ACK of new data (RFC 6298 §5.3), and when it fired
	 * before (§5.6) */
	fired = report.state >= UC_CCC_LOSS && report.state != own->flow.state;
	if (fired && own->timer_ns)
		report.lost_age_us = uc_min64(uc_ccc_less(now_ns, own->timer_ns) / 1000, ~0U);
	/* The first segment is lost, and not yet retransmitted. A connection may detect its loss
	 * long after the group's reduction: a smaller share lets it send nothing for a while,
	 * and without later segments there are no duplicate ACKs. */
	if (own->tcp_state == UC_TCP_CA_RECOVERY && own->flow.state < UC_CCC_RECOVERY)
		report.lost_age_us = first_age_us((struct sock *)tp, now_ns);
	if (report.acked_bytes || fired || !own->timer_ns)
		own->timer_ns = now_ns;
	own->acked_bytes = acked_bytes;
	own->report = report;
}

/* Writes own->answer into the kernel's TCP. */
static __always_inline void write_answer(struct tcp_sock *tp, struct uc_ctrl *own)
{
	__u32 mss = own->report.mss_bytes | !own->report.mss_bytes, cwnd = own->answer.cwnd_bytes;
	__u8 state = own->report.state;

	own->beyond_bytes = 0;
	tp->snd_ssthresh = own->answer.ssthresh_bytes == UC_CCC_INFINITE_SSTHRESH
				   ? UC_TCP_INFINITE_SSTHRESH
				   : uc_max64(own->answer.ssthresh_bytes / mss, 1);
	if (state == UC_CCC_RECOVERY)
		return;
	if (state < UC_CCC_RECOVERY)
		cwnd = uc_ccc_whole(&own->segments, cwnd, own->report.acked_bytes, mss);
	if (cwnd / mss > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp * mss;
	else if (state < UC_CCC_RECOVERY)
		own->beyond_bytes = cwnd - own->answer.cwnd_bytes;
	tp->snd_cwnd = uc_max64(cwnd / mss, 1);
}

/* Closes the group if it has no members. Called when the table of guests is full, so that the
 * connection cannot join. */
static __always_inline void abandon(struct uc_ctrl *own, struct uc_ctrl_group *group)
{
	__u32 none;

	bpf_spin_lock(&group->lock);
	none = !group->members && !group->closed;
	if (none)
		group->closed = 1;
	bpf_spin_unlock(&group->lock);
	if (none)
		bpf_map_delete_elem(&groups, &own->group);
}

/*
 * Enters the connection into its group. Returns 1 if own->answer has the group's answer, 0 if the
 * connection stays uncoupled.
 *
 * This function and uc_ctrl_update() hold the lock. They are global, so the verifier checks each
 * once, for any argument, and not at each call.
 */
__noinline int uc_ctrl_join(struct uc_ctrl *own)
{
	struct uc_ctrl_policy *policy = policy_now();
	__u64 now_ns = bpf_ktime_get_ns();
	struct uc_ctrl_group *group;
	struct uc_ctrl_guest *guest;

	if (!own || !policy)
		return 0;
	own->refusals++;
	group = find_group(&own->group);
	if (!group)
		return 0;
	guest = find_guest(&own->guest);
	if (!guest) {
		abandon(own, group);
		return 0;
	}
	bpf_spin_lock(&group->lock);
	if (group->closed || guest->closed) {
		bpf_spin_unlock(&group->lock);
		return 0;
	}
	if (!group->opened) {
		uc_ccc_open(&group->ccc, &policy->group, now_ns);
		group->host.opened_ns = now_ns;
		group->opened = 1;
	}
	guest->ccc.weight = own->weight;
	own->answer = uc_ccc_register(&group->ccc, &guest->ccc, &own->flow, own->priority,
				      &own->report, now_ns);
	group->members++;
	guest->members++;
	bpf_spin_unlock(&group->lock);
	own->joined = 1;
	return 1;
}

/* Reports to the group. Returns 1 if own->answer has the group's answer, 0 if it is in no group. */
__noinline int uc_ctrl_update(struct uc_ctrl *own)
{
	__u64 now_ns = bpf_ktime_get_ns(), window_was_q16;
	struct uc_ctrl_group *group;
	struct uc_ctrl_guest *guest;
	struct uc_ccc_told *by_host;
	__u32 cuts_were;

	if (!own)
		return 0;
	group = bpf_map_lookup_elem(&groups, &own->group);
	guest = bpf_map_lookup_elem(&guests, &own->guest);
	by_host = bpf_map_lookup_elem(&told, &own->group);
	if (!group || !guest || !own->joined)
		return 0;
	bpf_spin_lock(&group->lock);
	guest->ccc.weight = own->weight;
	own->flow.priority = own->priority;
	if (by_host)
		uc_ccc_follow(&group->ccc, &group->host, by_host, now_ns);
	window_was_q16 = group->ccc.window_q16;
	cuts_were = group->ccc.cuts;
	own->answer = uc_ccc_update(&group->ccc, &guest->ccc, &own->flow, &own->report, now_ns);
	uc_ccc_note(&group->ccc, &group->host, &own->report, window_was_q16, cuts_were, now_ns);
	bpf_spin_unlock(&group->lock);
	return 1;
}

static __always_inline void join(struct sock *sk, struct uc_ctrl *own)
{
	struct uc_ctrl_policy *policy = policy_now();

	if (!policy || own->refusals >= REFUSALS_MAX)
		return;
	learn_weights(sk, own, policy->weights_version);
	read_report(tcp_sk(sk), own);
	if (uc_ctrl_join(own))
		write_answer(tcp_sk(sk), own);
}

static __always_inline void update(struct sock *sk, struct uc_ctrl *own)
{
	struct uc_ctrl_policy *policy = policy_now();

	if (!policy || !own->joined)
		return;
	if (own->weights_version != policy->weights_version)
		learn_weights(sk, own, policy->weights_version);
	read_report(tcp_sk(sk), own);
	if (uc_ctrl_update(own))
		write_answer(tcp_sk(sk), own);
}

static __always_inline void leave(struct uc_ctrl *own)
{
	struct uc_ctrl_group *group = bpf_map_lookup_elem(&groups, &own->group);
	struct uc_ctrl_guest *guest = bpf_map_lookup_elem(&guests, &own->guest);
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 last_of_group, last_of_guest;

	if (!group || !guest || !own->joined)
		return;
	own->joined = 0;
	bpf_spin_lock(&group->lock);
	uc_ccc_leave(&group->ccc, &guest->ccc, &own->flow, now_ns);
	last_of_guest = guest->closed = !--guest->members;
	last_of_group = group->closed = !--group->members;
	bpf_spin_unlock(&group->lock);
	/* A closed entry can't be joined, and is replaced only after it is deleted: so the entries
	 * deleted here are those that were closed above. */
	if (last_of_guest)
		bpf_map_delete_elem(&guests, &own->guest);
	if (last_of_group)
		bpf_map_delete_elem(&groups, &own->group);
}

#endif
