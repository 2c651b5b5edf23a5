/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fuzz target `coupling`: a group of two guests with two flows each, under any policy, and up to 24
 * reports that say anything.
 */
#include "coupling.h"
#include "input.h"

#define STEPS 24

COUNTED(calls, "calls of the coupled congestion controller")

struct group {
	struct uc_ccc ccc;
	struct uc_ccc_guest guests[2];
	struct uc_ccc_flow flows[4];
};

/* Checks an answer to a report; a flow that is not registered gets its own numbers back. */
static void check_answer(const struct uc_ccc_flow *flow, const struct uc_ccc_report *report,
			 const struct uc_ccc_answer *answer, __u8 was_known)
{
	struct uc_ccc_report own = uc_ccc_believe(report);

	calls++;
	require("an answer is a state", answer->state <= UC_CCC_LOSS);
	if (!was_known)
		return;
	require("a window has a segment", answer->cwnd_bytes >= own.mss_bytes);
	require("a window is at most the largest", answer->cwnd_bytes <= UC_CCC_WINDOW_MAX_BYTES ||
							   answer->cwnd_bytes <= own.cwnd_bytes);
	require("an answer is stored", flow->given_bytes == answer->cwnd_bytes);
}

/* Checks the group after a call. */
static void check_group(const struct group *group)
{
	const struct uc_ccc *ccc = &group->ccc;
	__u32 flows = ccc->guests.counted.flows, known = 0;

	for (int i = 0; i < 4; i++)
		known += group->flows[i].priority > 0;
	require("the group's window is at most the largest",
		ccc->window_q16 <= (__u64)UC_CCC_WINDOW_MAX_BYTES << 16);
	require("the group's threshold is at most infinite",
		ccc->ssthresh_bytes <= UC_CCC_INFINITE_SSTHRESH);
	require("no more flows count than have registered", flows <= known);
}

/* Makes one call, as the input selects. */
static void call(struct group *group, struct input *input, __u64 now_ns)
{
	__u8 which = take_byte(input), number = which & 3, priority;
	struct uc_ccc_flow *flow = &group->flows[number];
	struct uc_ccc_guest *guest = &group->guests[number >> 1];
	struct uc_ccc_report report;
	struct uc_ccc_answer answer;

	if (which & 0x80)
		guest->weight = which >> 2;
	switch (which >> 2 & 7) {
	case 0:
		uc_ccc_leave(&group->ccc, guest, flow, now_ns);
		require("who leaves is unknown", !flow->priority);
		break;
	case 1:
		uc_ccc_ask(&group->ccc, guest, flow, now_ns);
		break;
	case 2:
		priority = take_byte(input);
		take(input, &report, sizeof(report));
		answer = uc_ccc_register(&group->ccc, guest, flow, priority, &report, now_ns);
		check_answer(flow, &report, &answer, 1);
		break;
	default:
		take(input, &report, sizeof(report));
		priority = flow->priority;
		answer = uc_ccc_update(&group->ccc, guest, flow, &report, now_ns);
		check_answer(flow, &report, &answer, priority > 0);
	}
	check_group(group);
}

int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size);

int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size)
{
	struct input input = {bytes, size};
	struct uc_ccc_policy policy;
	struct group group = {};
	__u64 now_ns = 1ULL << 40;

	take(&input, &policy, sizeof(policy));
	uc_ccc_open(&group.ccc, &policy, now_ns);
	for (int i = 0; input.left && i < STEPS; i++) {
		now_ns += take_pause_ns(&input);
		call(&group, &input, now_ns);
	}
	return 0;
}
