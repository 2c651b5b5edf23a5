/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fuzz target `flow`: a policy, a handshake, and up to 24 segments of either end, whose numbers are
 * relative to where the flow stands. Each input is a run under every law and profile. What
 * must hold is in invariants.h and honest.h.
 */
#include "honest.h"
#include "place.h"

/* One step of an input. */
struct step {
	__u8 kind;
	__u8 flags;
	__u8 marks;   /* ECN codepoint, AE, blind, and the time going back */
	__u8 options; /* of a SYN */
	__u8 from;    /* what SEQ and ACK are relative to */
	__u8 shift;   /* scales of both offsets */
	__s8 seq;
	__s8 ack;
	__u16 bytes;
	__u16 window;
};

#define STEPS 24
#define ISS   0x7ffff000U /* so that 2^31 is near */
#define IRS   0xffffff00U /* so that numbers wrap */

COUNTED(runs, "runs")
COUNTED(segments, "segments through the core")

static __u8 traces;

struct game {
	struct place place;
	struct honest guest;
	__u64 now_ns;
};

/* Prints a call, for whoever replays an input: UC_TRACE=1. */
static void print_call(const struct call *call, __u64 now_ns)
{
	const struct uc_segment *segment = call->segment;
	const struct uc_flow *flow = call->after;

	fprintf(stderr,
		"%llu ns: %s seq %u ack %u bytes %u/%u window %u flags %02x ecn %u options %02x "
		"blind %u: reason %u window %u flags %02x ecn %u\n",
		(unsigned long long)now_ns, segment->direction ? "to guest" : "from guest",
		segment->seq, segment->ack, segment->payload_bytes, segment->wire_payload_bytes,
		segment->window, segment->flags, segment->ecn, segment->options, segment->blind,
		call->reason, call->edit->window, call->edit->flags, call->edit->ecn);
	if (flow)
		fprintf(stderr,
			"  stage %u bits %08x una %u nxt %u edge %u furthest %u mss %u scale %u "
			"echoed %u peer %u cwnd %u\n",
			flow->stage, flow->bits, flow->snd_una, flow->snd_nxt, flow->edge,
			flow->furthest_edge, flow->mss_bytes, uc_wscale(flow), flow->echoed_ack,
			flow->peer_nxt, flow->reno.cwnd);
}

/* Passes a segment, and checks the invariants. */
static void pass(struct game *game, const struct uc_segment *segment)
{
	struct place *place = &game->place;
	struct call call = {.segment = segment, .policy = &place->policy};
	struct uc_whole before;
	struct uc_edit edit;

	segments++;
	place_sweep(place, segment, game->now_ns);
	before = place->whole;
	call.before = place->has_flow ? &before.flow : NULL;
	call.reason = place_pass(place, segment, game->now_ns, &edit);
	call.after = place->has_flow ? &place->whole.flow : NULL;
	call.edit = &edit;
	if (traces)
		print_call(&call, game->now_ns);
	require("a reason is of the list", call.reason < UC_REASON_COUNT);
	check_call(&call);
	honest_call(&game->guest, &call);
}

/* Returns a number near which the sequence and ACK numbers of a step lie. */
static __u32 anchor(const struct place *place, __u8 which)
{
	const struct uc_flow *flow = &place->whole.flow;
	const __u32 anchors[] = {
		flow->snd_nxt,  flow->snd_una,       flow->edge, flow->echoed_ack,
		flow->peer_nxt, flow->furthest_edge, ISS,        IRS,
	};

	if (!place->has_flow)
		return which & 1 ? place->asked.stored ? place->asked.syn.seq + 1 : IRS : ISS;
	return anchors[which & 7];
}

/* Returns the flags of a step: mostly a plain ACK. */
static __u8 flags_of(const struct step *step)
{
	switch (step->kind >> 4 & 3) {
	case 0:
		return UC_ACK;
	case 1:
		return UC_ACK | (step->flags & (UC_PSH | UC_ECE | UC_CWR | UC_FIN));
	case 2:
		return (step->flags & ~UC_RST) | UC_ACK;
	default:
		return step->flags;
	}
}

/* Returns the segment of a step. */
static struct uc_segment segment_of(const struct place *place, const struct step *step)
{
	const struct uc_flow *flow = &place->whole.flow;
	__u8 from_guest = step->kind & 1, plain = step->kind & 2;
	__u32 mss_bytes = place->has_flow ? flow->mss_bytes : 536;
	struct uc_segment segment = {
		.seq = anchor(place, plain ? (from_guest ? 0 : 4) : step->from),
		.ack = anchor(place, plain ? (from_guest ? 4 : 1) : step->from >> 3),
		.payload_bytes = step->kind & 4 ? step->bytes : step->bytes % 4 * mss_bytes,
		.window = step->window,
		.mss_bytes = step->bytes,
		.wscale = step->options & 15,
		.flags = flags_of(step),
		.ecn = step->marks & 3,
		.direction = from_guest ? UC_FROM_GUEST : UC_TO_GUEST,
		.blind = (step->marks & 0x0c) == 0x0c,
	};

	if (step->kind & 8)
		segment.payload_bytes = 0;
	segment.seq += (__u32)step->seq << (step->shift & 31);
	segment.ack += (__u32)step->ack * (step->shift & 0x80 ? mss_bytes : 1)
		       << (step->shift >> 5 & 3) * 6;
	segment.wire_payload_bytes = step->kind & 0x40 && segment.payload_bytes > mss_bytes
					     ? mss_bytes
					     : segment.payload_bytes;
	segment.options = step->marks & 0x40 ? UC_OPT_AE : 0;
	if (segment.flags & UC_SYN)
		segment.options |=
			(step->options >> 4 & 7) == 7 ? step->flags : step->options >> 4 & 15;
	segment.options &= 0x7f;
	return segment;
}

/* Plays a handshake without oddities, so that most inputs come to an established flow. */
static void shake_hands(struct game *game, __u8 how, __u8 scales, __u16 mss_bytes, __u16 window)
{
	__u8 by_guest = how & 1;
	struct uc_segment syn = {
		.seq = by_guest ? ISS : IRS,
		.window = window,
		.mss_bytes = mss_bytes,
		.wscale = scales & 15,
		.options = (how >> 1 & 15) | UC_OPT_MSS,
		.flags = UC_SYN | (by_guest ? 0 : UC_ECE | UC_CWR),
		.direction = by_guest ? UC_FROM_GUEST : UC_TO_GUEST,
	};
	struct uc_segment answer = syn;

	pass(game, &syn);
	answer.direction = by_guest ? UC_TO_GUEST : UC_FROM_GUEST;
	answer.flags = UC_SYN | UC_ACK | (by_guest ? UC_ECE : 0);
	answer.seq = by_guest ? IRS : ISS;
	answer.ack = syn.seq + 1;
	answer.wscale = scales >> 4;
	game->now_ns += 1000000;
	pass(game, &answer);
}

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size);

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
	(void)count, (void)arguments;
	traces = getenv("UC_TRACE") != NULL;
	return 0;
}

/* Plays the sequence of an input under one law and profile. */
static void play(struct input input, __u8 law, __u8 profile)
{
	struct game game = {.now_ns = 1ULL << 40};
	struct place *place = &game.place;
	__u8 how = take_byte(&input), scales = take_byte(&input);
	struct step step;
	int steps = 0;

	runs++;
	place->share = take_byte(&input);
	take(&input, &place->policy, sizeof(place->policy));
	place->policy.law = law;
	place->policy.profile = profile;
	/* at most one of the first two */
	place->policy.modes = (place->policy.modes & UC_WITHHELD_ANY) |
			      place->policy.modes % (UC_MODE_OBSERVE | UC_MODE_STRICT);
	take(&input, &place->answer, sizeof(place->answer));
	place->answer.cwnd_bytes %= UC_CCC_WINDOW_MAX_BYTES + 1;
	if (!(how & 0x80))
		shake_hands(&game, how, scales,
			    48 + (place->policy.parameters.delay.target_us & 0xffff) % 9000,
			    65535 - scales);
	while (input.left && steps++ < STEPS) {
		__u64 pause_ns = take_pause_ns(&input);
		struct uc_segment segment;

		take(&input, &step, sizeof(step));
		game.now_ns += step.marks & 0x80 ? -(pause_ns & 0xffff) : pause_ns;
		segment = segment_of(place, &step);
		pass(&game, &segment);
	}
}

int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size)
{
	struct input input = {bytes, size};

	for (int law = UC_LAW_PASS; law < UC_LAW_INSIDE_COUNT; law++)
		for (int profile = 0; profile < 2; profile++)
			play(input, law, profile);
	return 0;
}
