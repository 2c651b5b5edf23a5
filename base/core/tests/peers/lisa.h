/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * LISA on ctrlTCP's interface (Islam and others, §III): flows that start together in slow start
 * would each bring an initial window to the bottleneck. A newcomer brings none: it takes its first
 * window from one that is in slow start already.
 *
 * register shares, and only while some flow is in slow start; update notes who has left it, and
 * collects what the giver owes; leave forgets. In congestion avoidance each flow is its own master.
 * The giver is the flow with the largest window in slow start, as far as it is known without a look
 * at all of them: the largest that has reported since the last one left.
 */
#ifndef UC_PEERS_LISA_H
#define UC_PEERS_LISA_H

#include "coupling/interface.h"

#define UC_LISA_INITIAL_SEGMENTS 10U /* RFC 6928 */

struct uc_lisa {
	__u64 giver;       /* the flow's identifier; 0: none is known */
	__u32 giver_bytes; /* its window, less what it owes */
	__u32 owed_bytes;
};

struct uc_lisa_flow {
	__u64 id; /* 0: not registered */
};

static __always_inline void uc_lisa_forget_giver(struct uc_lisa *lisa)
{
	const struct uc_lisa nobody = {};

	*lisa = nobody;
}

static __always_inline struct uc_ccc_answer uc_lisa_update(struct uc_lisa *lisa,
							   const struct uc_lisa_flow *flow,
							   const struct uc_ccc_report *said)
{
	struct uc_ccc_report report = uc_ccc_believe(said);
	struct uc_ccc_answer answer = uc_ccc_uncoupled(&report);

	if (!flow->id)
		return uc_ccc_uncoupled(said);
	if (flow->id == lisa->giver) {
		/* it pays once, and never its last segment */
		answer.cwnd_bytes = report.cwnd_bytes > report.mss_bytes + lisa->owed_bytes
					    ? report.cwnd_bytes - lisa->owed_bytes
					    : report.mss_bytes;
		lisa->owed_bytes = 0;
		lisa->giver_bytes = answer.cwnd_bytes;
		if (report.state != UC_CCC_SLOW_START)
			uc_lisa_forget_giver(lisa);
	} else if (report.state == UC_CCC_SLOW_START && !lisa->owed_bytes &&
		   report.cwnd_bytes > lisa->giver_bytes) {
		lisa->giver = flow->id;
		lisa->giver_bytes = report.cwnd_bytes;
	}
	return answer;
}

/* `id` is the home's own name of the flow, not 0. Half of the giver's window, an initial window at
 * most; with no giver, what the newcomer brings. */
static __always_inline struct uc_ccc_answer uc_lisa_register(struct uc_lisa *lisa,
							     struct uc_lisa_flow *flow, __u64 id,
							     const struct uc_ccc_report *said)
{
	struct uc_ccc_report report = uc_ccc_believe(said);
	struct uc_ccc_answer answer = uc_ccc_uncoupled(&report);
	__u32 credit_bytes;

	flow->id = id;
	if (!lisa->giver || lisa->giver == id)
		return uc_lisa_update(lisa, flow, &report);
	credit_bytes = uc_min64(lisa->giver_bytes / 2, UC_LISA_INITIAL_SEGMENTS * report.mss_bytes);
	if (credit_bytes < report.mss_bytes) {
		/* a segment is nothing to share, and everyone may send one */
		answer.cwnd_bytes = report.mss_bytes;
		return answer;
	}
	lisa->giver_bytes -= credit_bytes;
	lisa->owed_bytes += credit_bytes;
	answer.cwnd_bytes = credit_bytes;
	return answer;
}

static __always_inline void uc_lisa_leave(struct uc_lisa *lisa, struct uc_lisa_flow *flow)
{
	if (flow->id && flow->id == lisa->giver)
		uc_lisa_forget_giver(lisa);
	flow->id = 0;
}

#endif
