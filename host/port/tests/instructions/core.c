/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls of the core whose instructions are counted: Callgrind counts within the functions count_…
 * alone, each of which makes one call. Flows and segments are the same in each run, so the counts
 * depend on the core, the compiler and its options only.
 */
#include <linux/types.h>

#include "step.h"
#include "coupling.h"
#include "watch.h"

#define TIMES     2000 /* segments of each flow, of which a law's mark comes at every 100th */
#define MSS_BYTES 1448
#define STEP_NS   20000

#define COUNTED __attribute__((noinline))
#define SHARED  __attribute__((noinline)) static

/* Adds instructions to a counted function, for the test of the bar: planted.h has their numbers. */
#ifdef PLANTED
#include "planted.h"
#define PLANT(name) asm volatile(".rept %c0\n\tnop\n\t.endr" : : "i"(PLANTED_##name))
#else
#define PLANT(name) (void)0
#endif

/* The compiler calls these; those of libc depend on the processor. */
COUNTED void *memset(void *to, int byte, unsigned long bytes)
{
	for (unsigned long i = 0; i < bytes; i++)
		((volatile char *)to)[i] = byte;
	return to;
}

COUNTED void *memcpy(void *to, const void *from, unsigned long bytes)
{
	for (unsigned long i = 0; i < bytes; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
	return to;
}

SHARED enum uc_reason open_flow(struct uc_whole *whole, const struct uc_policy *policy,
				const struct uc_segment *segment, __u64 now_ns)
{
	struct uc_given given = {.policy = policy};
	struct uc_asked asked = {};
	struct uc_edit edit;

	return uc_step_unknown(&whole->flow, &whole->annex, &given, &asked, segment, now_ns, &edit)
		.reason;
}

SHARED enum uc_reason translate(struct uc_whole *whole, const struct uc_segment *segment,
				__u64 now_ns)
{
	struct uc_edit edit;

	return uc_translate(&whole->flow, &whole->annex, segment, now_ns, &edit);
}

/* Both directions of a connection. */
struct connection {
	struct uc_policy policy;
	struct uc_whole whole;
	__u64 now_ns;
	__u32 sent_bytes, acked_bytes;
};

static struct uc_segment from_guest(const struct connection *on, __u32 payload_bytes)
{
	return (struct uc_segment){
		.seq = 1001 + on->sent_bytes,
		.ack = 9001,
		.payload_bytes = payload_bytes,
		.wire_payload_bytes = payload_bytes < MSS_BYTES ? payload_bytes : MSS_BYTES,
		.window = 500,
		.flags = UC_ACK,
	};
}

static struct uc_segment to_guest(const struct connection *on, __u8 flags)
{
	return (struct uc_segment){
		.seq = 9001,
		.ack = 1001 + on->acked_bytes,
		.window = 60000,
		.flags = UC_ACK | flags,
		.direction = UC_TO_GUEST,
	};
}

/* A counted call of uc_translate(). */
#define COUNTED_CALL(name)                                                                         \
	COUNTED enum uc_reason count_##name(struct connection *on,                                 \
					    const struct uc_segment *segment)                      \
	{                                                                                          \
		PLANT(name);                                                                       \
		return translate(&on->whole, segment, on->now_ns);                                 \
	}

COUNTED enum uc_reason count_syn(struct connection *on, const struct uc_segment *segment)
{
	PLANT(syn);
	return open_flow(&on->whole, &on->policy, segment, on->now_ns);
}

COUNTED_CALL(syn_ack)

static void connect(struct connection *on, __u8 law, __u8 profile)
{
	struct uc_segment syn = {
		.seq = 1000,
		.window = 64240,
		.mss_bytes = 1460,
		.wscale = 7,
		.options = UC_OPT_MSS | UC_OPT_WSCALE | UC_OPT_SACK | UC_OPT_TIMESTAMPS,
		.flags = UC_SYN,
	};
	struct uc_segment answer = syn;
	struct uc_dctcp_parameters dctcp = {
		.gain_shift = 4,
		.initial_alpha_q7 = 128,
		.beta_q7 = 128,
		.minimum_window_segments = 2,
	};

	*on = (struct connection){
		.policy =
			{
				.law = law,
				.profile = profile,
				.ecn_syns = 2,
				.initial_window_segments = 10,
			},
		.now_ns = 1000000000,
	};
	if (law == UC_LAW_DELAY)
		on->policy.parameters.delay.target_us = 500;
	else
		on->policy.parameters.dctcp = dctcp;
	count_syn(on, &syn);
	answer.seq = 9000;
	answer.ack = 1001;
	answer.flags = UC_SYN | UC_ACK | UC_ECE;
	answer.direction = UC_TO_GUEST;
	on->now_ns += STEP_NS;
	count_syn_ack(on, &answer);
}

/* A law's three functions: what the guest sends, an ACK of it, and an ACK that echoes a mark. */
#define COUNTED_LAW(law)                                                                           \
	COUNTED_CALL(law##_data)                                                                   \
	COUNTED_CALL(law##_ack)                                                                    \
	COUNTED_CALL(law##_marked_ack)

typedef enum uc_reason counted(struct connection *on, const struct uc_segment *segment);

/* Answers an ACK of a flow that shares a window; NULL: it does not. */
typedef void answered(struct connection *on, const struct uc_segment *ack);

/* Sends two units of data of `unit_bytes`, then their ACK, as often as TIMES says. */
static void exchange(struct connection *on, __u32 unit_bytes, counted *data, counted *ack,
		     counted *marked_ack, answered *answer)
{
	for (int i = 0; i < TIMES; i++) {
		struct uc_segment segment = from_guest(on, unit_bytes);

		on->now_ns += STEP_NS;
		data(on, &segment);
		on->sent_bytes += unit_bytes;
		if (i % 2 == 0)
			continue;
		/* the peer has all but the last ten units */
		if (i > 10)
			on->acked_bytes = on->sent_bytes - 10 * unit_bytes;
		segment = to_guest(on, i % 100 == 99 ? UC_ECE : 0);
		on->now_ns += STEP_NS;
		(i % 100 == 99 ? marked_ack : ack)(on, &segment);
		if (answer)
			answer(on, &segment);
	}
}

COUNTED_LAW(ecn)
COUNTED_LAW(super_segment)
COUNTED_LAW(rfc)
COUNTED_LAW(dctcp)
COUNTED_LAW(delay)
COUNTED_LAW(coupled)

#define EXCHANGE(on, name, unit_bytes, answer)                                                     \
	exchange(on, unit_bytes, count_##name##_data, count_##name##_ack,                          \
		 count_##name##_marked_ack, answer)

/* The group of the coupled flow. */
static struct uc_ccc group;
static struct uc_ccc_guest guest;
static struct uc_ccc_flow member;

COUNTED struct uc_ccc_report count_group_report(struct connection *on)
{
	PLANT(group_report);
	return uc_coupled_report(&on->whole.flow, &on->whole.annex, on->now_ns);
}

COUNTED struct uc_ccc_answer count_group_update(const struct uc_ccc_report *report, __u64 now_ns)
{
	PLANT(group_update);
	return uc_ccc_update(&group, &guest, &member, report, now_ns);
}

COUNTED void count_group_answer(struct connection *on, const struct uc_segment *ack, __u8 awaits,
				const struct uc_ccc_answer *answer)
{
	PLANT(group_answer);
	struct uc_edit edit = uc_edit_none(ack);

	uc_tell_share(&on->whole.flow, &on->whole.annex, ack, awaits, answer, &edit);
}

static void ask_group(struct connection *on, const struct uc_segment *ack)
{
	__u8 awaits = uc_awaits(&on->whole.flow);
	struct uc_ccc_report report;
	struct uc_ccc_answer answer;

	if (!awaits)
		return;
	report = count_group_report(on);
	if (!member.priority)
		answer = uc_ccc_register(&group, &guest, &member, 1, &report, on->now_ns);
	else
		answer = count_group_update(&report, on->now_ns);
	count_group_answer(on, ack, awaits, &answer);
}

COUNTED_CALL(received_data)

COUNTED_CALL(received_ack)

/* The peer sends data, of which every 100th segment is marked, and the guest acknowledges them. */
static void receive(struct connection *on)
{
	for (int i = 0; i < TIMES; i++) {
		struct uc_segment data = to_guest(on, 0), ack = from_guest(on, 0);

		data.seq += i * MSS_BYTES;
		data.payload_bytes = data.wire_payload_bytes = MSS_BYTES;
		data.ecn = i % 100 == 99 ? UC_CE : UC_ECT0;
		on->now_ns += STEP_NS;
		count_received_data(on, &data);
		ack.ack = data.seq + MSS_BYTES;
		count_received_ack(on, &ack);
	}
}

COUNTED __u8 count_watch_data(struct uc_watch_flow *flow, const struct uc_segment *segment)
{
	PLANT(watch_data);
	return uc_watch_to_guest(flow, segment);
}

COUNTED struct uc_watch_answer count_watch_ack(struct uc_watch_flow *flow,
					       const struct uc_watch_policy *policy,
					       struct uc_watch_path *path,
					       struct uc_watch_bucket *bucket,
					       const struct uc_segment *segment, __u64 now_ns)
{
	PLANT(watch_ack);
	return uc_watch_from_guest(flow, policy, path, bucket, segment, now_ns, 7);
}

/* A start of a flow to the guest, of which every third segment is marked. */
static void start(void)
{
	struct uc_watch_policy policy = {
		.probes = 10,
		.marked_part = 2,
		.least_segments = 2,
		.rounds = 255,
		.fresh_us = 100000,
		.idle_us = 1000000,
	};
	struct uc_watch_path path = {};
	struct uc_watch_bucket bucket = {};
	struct uc_watch_flow flow = {};
	struct connection on = {.now_ns = 1000000000};
	struct uc_segment syn = to_guest(&on, 0);

	syn.seq = 9000;
	syn.flags = UC_SYN;
	syn.options = UC_OPT_MSS | UC_OPT_WSCALE;
	syn.mss_bytes = 1460;
	count_watch_data(&flow, &syn);
	for (int i = 0; i < TIMES; i++) {
		struct uc_segment data = to_guest(&on, 0), ack = from_guest(&on, 0);

		data.seq += i * MSS_BYTES;
		data.payload_bytes = data.wire_payload_bytes = MSS_BYTES;
		data.ecn = i % 3 == 2 ? UC_CE : UC_ECT0;
		if (i)
			count_watch_data(&flow, &data);
		ack.ack = data.seq + (i ? MSS_BYTES : 0);
		on.now_ns += STEP_NS;
		count_watch_ack(&flow, &policy, &path, &bucket, &ack, on.now_ns);
	}
}

int main(void)
{
	const struct uc_ccc_policy shared = {
		.window_max_bytes = 1 << 24,
		.burst_segments = 10,
		.aggressiveness_q16 = UC_CCC_ONE_Q16,
	};
	struct connection on;

	connect(&on, UC_LAW_ECN, UC_PROFILE_LINUX);
	EXCHANGE(&on, ecn, MSS_BYTES, 0);
	connect(&on, UC_LAW_ECN, UC_PROFILE_LINUX);
	EXCHANGE(&on, super_segment, 44 * MSS_BYTES, 0);
	connect(&on, UC_LAW_ECN, UC_PROFILE_RFC);
	EXCHANGE(&on, rfc, MSS_BYTES, 0);
	connect(&on, UC_LAW_DCTCP, UC_PROFILE_LINUX);
	EXCHANGE(&on, dctcp, MSS_BYTES, 0);
	connect(&on, UC_LAW_DELAY, UC_PROFILE_LINUX);
	EXCHANGE(&on, delay, MSS_BYTES, 0);
	connect(&on, UC_LAW_COUPLED, UC_PROFILE_LINUX);
	uc_ccc_open(&group, &shared, on.now_ns);
	EXCHANGE(&on, coupled, MSS_BYTES, ask_group);
	connect(&on, UC_LAW_DCTCP, UC_PROFILE_LINUX);
	receive(&on);
	start();
	return 0;
}
