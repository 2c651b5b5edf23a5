/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The operator's policy for flow starts, and what a host stores about a path. The hosts at both
 * ends of a flow need the same policy: the receiving host must know how many probes it misses.
 */
#ifndef UC_WATCH_POLICY_H
#define UC_WATCH_POLICY_H

#include "../minmax.h"
#include "../parameter.h"
#include "../since.h"

#define UC_WATCH_PROBES_MAX 32
/* The longest time over which probes are spread, and the longest wait of a first window for its
 * pacing slot: a SYN without an answer is retransmitted after a second (RFC 6298 §2.1). */
#define UC_WATCH_SPAN_MAX_US (50U * 1000)
#define UC_WATCH_WAIT_MAX_US (800U * 1000)
/* The longest lifetime of a measurement: an hour, which 32 bits of microseconds hold. */
#define UC_WATCH_RECORD_MAX_US 3600000000U

struct uc_watch_policy {
	__u8 probes;         /* the number of probes before a flow's data, 0 to 32; paper: 10. 0: no
			      * probes, a start uses what earlier flows of the path found */
	__u8 least_segments; /* the smallest window that a start sets, 2 to 16. Below two, a Linux
			      * guest halves its segment size, and the ACK of a single segment is
			      * delayed */
	__u8 rounds;    /* rounds of data after which a start is over at the latest, 1 to 255 */
	__u8 observe;   /* 1: send and count probes, write no window */
	__u32 span_us;  /* all probes leave within this time, and within 1/span_part of the
			 * path's round-trip time where that is known; paper: 50 */
	__u32 fresh_us; /* lifetime of a measurement that found marks */
	__u32 idle_us;  /* lifetime of a measurement that found no marks */
	__u32 wait_us;  /* the longest wait of a first window for its pacing slot; 0: none waits */
	__u32 burst_bytes; /* bytes of first windows that may be given ahead of their slots */
	__u32 late_ns;     /* a probe that took this much longer than another of its flow counts as
			    * marked (§3.4), where the platform can time it; 0: marks alone count */
	__u8 span_part;    /* divisor of the round-trip time for span_us, 1 to 255; paper: 2 */
	__u8 marked_part;  /* divisor for marked probes: X of them allow X/marked_part segments at
			    * first and as many one round later, 2 to 255; paper: 2 */
	__u8 granted;      /* 1: another host grants pacing slots, on a shared link (grant.h) */
	__u8 pad;
	__u64 pace_bytes_per_s; /* the rate of pacing slots, the receiving host's; 0: no pacing */
};

/* Rows as parameter.h has them, of the fields of uc_watch_policy; no law owns one. */
#define UC_START_SETTINGS(X)                                                                       \
	X(probes, 0, NUMBER, probes, 0, UC_WATCH_PROBES_MAX, 10, UC_NO_WORDS,                      \
	  "probes before a flow's data; 0: none, and a start uses what earlier flows found")       \
	X(span, 0, US, span_us, 1, UC_WATCH_SPAN_MAX_US, 16, UC_NO_WORDS,                          \
	  "all probes of a flow leave within this time, and within 1/part of the path's "          \
	  "round-trip time where that is known")                                                   \
	X(part, 0, NUMBER, span_part, 1, 255, 32, UC_NO_WORDS,                                     \
	  "the divisor of the path's round-trip time within which all probes leave; 2: its half")  \
	X(marked_part, 0, NUMBER, marked_part, 2, 255, 4, UC_NO_WORDS,                             \
	  "the divisor for marked probes: X of them allow X/N segments at once and as many one "   \
	  "round later; 2: the paper's half")                                                      \
	X(least, 0, SEGMENTS, least_segments, 2, 16, 2, UC_NO_WORDS,                               \
	  "the smallest window that a start sets")                                                 \
	X(rounds, 0, NUMBER, rounds, 1, 255, 8, UC_NO_WORDS,                                       \
	  "rounds of data after which a start is over at the latest")                              \
	X(fresh, 0, US, fresh_us, 0, UC_WATCH_RECORD_MAX_US, 100000, UC_NO_WORDS,                  \
	  "lifetime of a measurement that found marks: no probes until it expires")                \
	X(idle, 0, US, idle_us, 0, UC_WATCH_RECORD_MAX_US, 1000000, UC_NO_WORDS,                   \
	  "lifetime of a measurement that found no marks: no probes until it expires")             \
	X(pace, 0, RATE, pace_bytes_per_s, 12500, UC_U64 - 1, 0, UC_NO_WORDS,                      \
	  "the rate of a guest's own link: first windows are given no faster; without it, at "     \
	  "that of the port's uplink, where it is known")                                          \
	X(burst, 0, BYTES, burst_bytes, 0, UC_U32, 48448, UC_NO_WORDS,                             \
	  "bytes of first windows that may be given ahead of that rate; usually 32 packets of "    \
	  "1,514 bytes")                                                                           \
	X(wait, 0, US, wait_us, 0, UC_WATCH_WAIT_MAX_US, UC_WATCH_WAIT_MAX_US, UC_NO_WORDS,        \
	  "the longest time that pacing at that rate defers a first window; 0s: none is deferred") \
	X(late, 0, NS, late_ns, 0, 30000000, 0, UC_NO_WORDS,                                       \
	  "a probe that took this much longer than another of its flow counts as marked; 0s: "     \
	  "marks alone count")                                                                     \
	X(observe, 0, FLAG, observe, 0, 1, 0, UC_NO_WORDS,                                         \
	  "sends and counts probes, and writes no window")

/* What a host stores about the path to one peer address. All zero: never measured. */
struct uc_watch_path {
	__u64 measured_ns;  /* the time of the last measurement; 0: never */
	__u32 rtt_us;       /* the round-trip time of the last handshake; 0: unknown */
	__u8 marked;        /* marked and lost probes of the last measurement */
	__u8 unmarked;      /* unmarked probes of the last measurement */
	__u8 used_quarters; /* at the receiving host: how much of their first windows flows use on
			     * average, in quarters of a segment; 0: unknown */
	__u8 asked;         /* at the sending host: 1 while probes or their answer are under way */
};

/* Returns 32 random bits from a random word and a number; a platform draws one word for a flow. */
static __always_inline __u32 uc_watch_draw(__u32 word, __u32 number)
{
	__u32 x = word + number * 0x9e3779b9U;

	x = (x ^ x >> 16) * 0x85ebca6bU;
	x = (x ^ x >> 13) * 0xc2b2ae35U;
	return x ^ x >> 16;
}

static __always_inline __u32 uc_watch_probe_count(const struct uc_watch_policy *policy)
{
	return uc_min(policy->probes, UC_WATCH_PROBES_MAX);
}

static __always_inline __u32 uc_watch_marked_part(const struct uc_watch_policy *policy)
{
	return uc_max(policy->marked_part, 2);
}

static __always_inline __u32 uc_watch_least(const struct uc_watch_policy *policy)
{
	return uc_max(policy->least_segments, 2);
}

/* Headers of a segment: Ethernet, IPv4 and TCP with timestamps. */
#define UC_WATCH_HEADER_BYTES 66

/* Returns how many bytes of a link `bytes` of payload take, with headers. */
static __always_inline __u32 uc_watch_frame_bytes(__u16 mss_bytes, __u32 bytes)
{
	__u32 each = mss_bytes | !mss_bytes;

	return bytes + (bytes + each - 1) / each * UC_WATCH_HEADER_BYTES;
}

/* Returns the payload of a first window of which nothing was measured to be missing. */
static __always_inline __u32 uc_watch_whole_bytes(const struct uc_watch_policy *policy,
						  __u16 mss_bytes)
{
	return uc_max(uc_watch_probe_count(policy), uc_watch_least(policy)) * mss_bytes;
}

/* Returns how much payload of a first window of `bytes` a flow of this path is expected to use. */
static __always_inline __u32 uc_watch_usual_bytes(const struct uc_watch_path *path, __u16 mss_bytes,
						  __u32 bytes)
{
	if (path->used_quarters)
		bytes = uc_min(bytes, path->used_quarters * mss_bytes / 4U);
	return uc_min(bytes, 65535);
}

/* Learns that a flow of this path has used `bytes` of its first window, as a moving mean: many
 * flows are shorter than the window, and are to be charged for what they use together. */
static __always_inline void uc_watch_learn_use(struct uc_watch_path *path, __u16 mss_bytes,
					       __u32 bytes)
{
	__u32 each = mss_bytes | !mss_bytes;
	__u32 used = 4 * ((bytes + each - 1) / each);

	if (path->used_quarters)
		used = path->used_quarters - path->used_quarters / 4 + used / 4;
	path->used_quarters = uc_max(uc_min(used, 255), 4);
}

/* Returns 1 if the measurement of a path has not expired. Its lifetime is multiplied by `slack`:
 * the other host may read it later. */
static __always_inline __u8 uc_watch_is_fresh(const struct uc_watch_policy *policy,
					      const struct uc_watch_path *path, __u32 slack,
					      __u64 now_ns)
{
	__u64 stands_us = path->marked ? policy->fresh_us : policy->idle_us;

	if (!path->measured_ns)
		return 0;
	return uc_since_ns(now_ns, path->measured_ns) < stands_us * 1000 * slack;
}

#endif
