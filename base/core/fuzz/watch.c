/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fuzz target `watch`: the start of one flow at its receiving host, under any policy and records,
 * with up to 24 probes and segments.
 */
#include "input.h"
#include "watch.h"

#define STEPS 24

COUNTED(starts, "steps of flow starts")

/* One step of an input. */
struct step {
	__u8 kind;
	__u8 index;
	__u8 probes;
	__u8 ecn;
	__u32 random;
	struct uc_segment segment;
};

struct start {
	struct uc_watch_flow flow;
	struct uc_watch_policy policy;
	struct uc_watch_path path;
	struct uc_watch_bucket bucket;
};

/* Checks that the counts of a start are in their ranges. */
static void check_start(const struct uc_watch_flow *flow)
{
	require("no more probes are sent than may be", flow->probes_sent <= UC_WATCH_PROBES_MAX);
	require("no more probes arrive than were sent", !((__u64)flow->seen >> flow->probes_sent));
	require("no more probes are marked than arrive",
		flow->probes_marked <= uc_watch_ones(flow->seen));
	require("the window scale is legal",
		flow->stage == UC_WATCH_COUNTING || flow->wscale <= UC_WSCALE_MAX);
	require("a segment has bytes",
		flow->stage == UC_WATCH_COUNTING ||
			flow->mss_bytes >= UC_MSS_MIN_BYTES - UC_TIMESTAMPS_BYTES);
}

/* Handles a segment of the guest, and checks its window. */
static void from_guest(struct start *start, const struct uc_segment *segment, __u64 now_ns,
		       __u32 random)
{
	struct uc_watch_answer answer =
		uc_watch_from_guest(&start->flow, &start->policy, &start->path, &start->bucket,
				    segment, now_ns, random);
	__u64 wait_ns =
		uc_watch_wait_ns(&start->bucket, &start->policy, answer.grant_bytes, now_ns);

	require("no window is above the receiver's", answer.window <= segment->window);
	require("no window is 0 unless the receiver's is", answer.window || !segment->window);
	require("a port that observes writes nothing",
		!start->policy.observe || answer.window == segment->window);
	require("no packet waits longer than policy says",
		wait_ns <= start->policy.wait_us * 1000ULL &&
			wait_ns <= UC_WATCH_WAIT_MAX_US * 1000ULL);
	uc_watch_settle(&start->bucket, &start->policy, answer.settle_bytes);
}

/* Passes one step of the fuzzer's input to the start-up control, and checks the result. */
static void take_step(struct start *start, const struct step *step, __u64 now_ns)
{
	struct uc_watch_flow before = start->flow;
	struct uc_segment segment = step->segment;
	__u8 ecn = step->ecn & 3;

	starts++;
	/* near where the flow stands, or anywhere */
	segment.ack = step->kind & 0x80 ? segment.ack : start->flow.una + (__s16)segment.ack;
	segment.ecn &= 3;
	switch (step->kind & 3) {
	case 0:
		ecn = uc_watch_timed(&start->flow, &start->policy, ecn, step->random, now_ns);
		uc_watch_probe(&start->flow, step->index, step->probes, ecn);
		break;
	case 1:
		segment.direction = UC_TO_GUEST;
		uc_watch_is_steady(&start->flow, &segment);
		if (!uc_watch_to_guest(&start->flow, &segment))
			require("a segment that the guest does not accept changes nothing",
				!memcmp(&before, &start->flow, sizeof(before)));
		break;
	default:
		segment.direction = UC_FROM_GUEST;
		from_guest(start, &segment, now_ns, step->random);
	}
	check_start(&start->flow);
}

int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size);

int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size)
{
	struct input input = {bytes, size};
	struct start start = {};
	__u64 now_ns = 1ULL << 40;
	struct step step;

	take(&input, &start.policy, sizeof(start.policy));
	take(&input, &start.path, sizeof(start.path));
	for (int i = 0; input.left && i < STEPS; i++) {
		now_ns += take_pause_ns(&input);
		take(&input, &step, sizeof(step));
		take_step(&start, &step, now_ns);
	}
	return 0;
}
