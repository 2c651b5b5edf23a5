/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The Congestion Manager (RFC 3124) on ctrlTCP's interface (Islam and others, §III): one congestion
 * control for a macroflow, which listens to no cwnd and no ssthresh of its flows and dictates
 * theirs. All that it takes from a report is what RFC 3124's cm_update would tell it: bytes that
 * arrived, a congestion event, a timeout.
 *
 * Its own law is RFC 5681's, in bytes. Each flow has an equal part of the window.
 */
#ifndef UC_PEERS_MANAGER_H
#define UC_PEERS_MANAGER_H

#include "coupling/interface.h"

#define UC_MANAGER_INITIAL_SEGMENTS 10U /* RFC 6928 */

struct uc_manager {
	__u64 cut_ns;
	__u32 cwnd_bytes;
	__u32 ssthresh_bytes;
	__u32 acked_bytes; /* towards the next segment of congestion avoidance */
	__u32 flows;
};

struct uc_manager_flow {
	__u8 registered;
	__u8 state; /* enum uc_ccc_state, as reported last */
};

static __always_inline struct uc_ccc_answer uc_manager_answer(const struct uc_manager *manager,
							      const struct uc_ccc_report *report)
{
	__u32 flows = manager->flows | !manager->flows;
	struct uc_ccc_answer answer = {
		.cwnd_bytes = uc_max64(manager->cwnd_bytes / flows, report->mss_bytes),
		.ssthresh_bytes = manager->ssthresh_bytes,
		.state = manager->cwnd_bytes < manager->ssthresh_bytes ? UC_CCC_SLOW_START
								       : UC_CCC_AVOIDANCE,
	};

	if (manager->ssthresh_bytes != UC_CCC_INFINITE_SSTHRESH)
		answer.ssthresh_bytes =
			uc_max64(manager->ssthresh_bytes / flows, report->mss_bytes);
	return answer;
}

/* RFC 5681 §3.1, equations 2 and 3 (by the bytes of whole windows, as RFC 3465). */
static __always_inline void uc_manager_grow(struct uc_manager *manager,
					    const struct uc_ccc_report *report)
{
	__u32 acked_bytes = report->acked_bytes;

	if (manager->cwnd_bytes < manager->ssthresh_bytes) {
		manager->cwnd_bytes += uc_min64(acked_bytes, 2U * report->mss_bytes);
	} else {
		manager->acked_bytes += uc_min64(acked_bytes, manager->cwnd_bytes);
		if (manager->acked_bytes >= manager->cwnd_bytes) {
			manager->acked_bytes -= manager->cwnd_bytes;
			manager->cwnd_bytes += report->mss_bytes;
		}
	}
	manager->cwnd_bytes = uc_min64(manager->cwnd_bytes, UC_CCC_WINDOW_MAX_BYTES);
}

/* RFC 5681 §3.1, equation 4, once for what was sent before the last cut. */
static __always_inline void uc_manager_cut(struct uc_manager *manager,
					   const struct uc_ccc_report *report, __u64 now_ns)
{
	__u64 round_ns = (report->srtt_us >> 3) * 1000ULL;

	if (!manager->cut_ns || now_ns >= manager->cut_ns + round_ns) {
		manager->ssthresh_bytes = uc_max64(manager->cwnd_bytes / 2, 2U * report->mss_bytes);
		manager->cwnd_bytes = manager->ssthresh_bytes;
		manager->acked_bytes = 0;
		manager->cut_ns = uc_max64(now_ns, 1);
	}
	if (report->state >= UC_CCC_LOSS)
		manager->cwnd_bytes = report->mss_bytes;
}

static __always_inline struct uc_ccc_answer uc_manager_register(struct uc_manager *manager,
								struct uc_manager_flow *flow,
								const struct uc_ccc_report *said)
{
	struct uc_ccc_report report = uc_ccc_believe(said);

	if (!manager->flows) {
		manager->cwnd_bytes = UC_MANAGER_INITIAL_SEGMENTS * report.mss_bytes;
		manager->ssthresh_bytes = UC_CCC_INFINITE_SSTHRESH;
		manager->acked_bytes = 0;
		manager->cut_ns = 0;
	}
	manager->flows += !flow->registered;
	flow->registered = 1;
	flow->state = UC_CCC_SLOW_START;
	return uc_manager_answer(manager, &report);
}

static __always_inline struct uc_ccc_answer uc_manager_update(struct uc_manager *manager,
							      struct uc_manager_flow *flow,
							      const struct uc_ccc_report *said,
							      __u64 now_ns)
{
	struct uc_ccc_report report = uc_ccc_believe(said);

	if (!flow->registered)
		return uc_ccc_uncoupled(said);
	if (report.state >= UC_CCC_RECOVERY && flow->state < report.state)
		uc_manager_cut(manager, &report, now_ns);
	else if (!report.limited && report.state != UC_CCC_RECOVERY)
		uc_manager_grow(manager, &report);
	flow->state = uc_min64(report.state, UC_CCC_LOSS);
	return uc_manager_answer(manager, &report);
}

static __always_inline void uc_manager_leave(struct uc_manager *manager,
					     struct uc_manager_flow *flow)
{
	manager->flows -= flow->registered && manager->flows;
	flow->registered = 0;
}

#endif
