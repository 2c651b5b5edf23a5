/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The operator's policy for a port's flows. It is copied into a flow at its handshake: a change of
 * policy reaches new flows only.
 */
#ifndef UC_POLICY_H
#define UC_POLICY_H

#include "laws/table.h"
#include "parameter.h"

/* X(NAME, word, what it means) */
#define UC_PROFILES(X)                                                                             \
	X(LINUX, "linux", "counts whole segments, grows when the window limits, reduces in steps") \
	X(RFC, "rfc", "RFC 5681 and RFC 6582, in bytes; slow start by RFC 3465 under a guard")

/* How the peer echoes marks. The host cannot see this in time, so policy says it. */
#define UC_ECHOES(X)                                                                               \
	X(EXACT, "exact",                                                                          \
	  "ECE tells which bytes were marked: DCTCP, or a guest behind a port with law dctcp")     \
	X(CLASSIC, "classic",                                                                      \
	  "RFC 3168, ECE until CWR: law dctcp then sets CWR on every data packet, and gets an "    \
	  "ACK for each; the port's segmentation offload must be off")

/* What becomes of a guest that negotiates ECN itself. */
#define UC_GUEST_ECNS(X)                                                                           \
	X(PASS, "pass", "its flows pass unmodified")                                               \
	X(TRANSLATE, "translate",                                                                  \
	  "the host removes its offer and translates it like a guest without ECN")

enum uc_profile {
#define UC_WORD_ENUM(NAME, ...) UC_PROFILE_##NAME,
	UC_PROFILES(UC_WORD_ENUM)
#undef UC_WORD_ENUM
};

enum uc_echo_kind {
#define UC_WORD_ENUM(NAME, ...) UC_ECHO_##NAME,
	UC_ECHOES(UC_WORD_ENUM)
#undef UC_WORD_ENUM
};

enum uc_guest_ecn {
#define UC_WORD_ENUM(NAME, ...) UC_GUEST_ECN_##NAME,
	UC_GUEST_ECNS(UC_WORD_ENUM)
#undef UC_WORD_ENUM
};

/* Bits of uc_policy.modes; at most one of the first two is set. */
#define UC_MODE_OBSERVE 1 /* keep the shadow and write nothing */
#define UC_MODE_STRICT  2 /* let no flow go untranslated: strict.h */
/* Offers that SYN and SYN-ACK lose (downgrade.h): UC_OPT_* (segment.h), shifted. */
#define UC_WITHHELD_SHIFT      1
#define UC_WITHHELD_WSCALE     0x04
#define UC_WITHHELD_SACK       0x08
#define UC_WITHHELD_TIMESTAMPS 0x10
#define UC_WITHHELD_ANY        (UC_WITHHELD_WSCALE | UC_WITHHELD_SACK | UC_WITHHELD_TIMESTAMPS)
/* Set by no operator: nothing of the guest is ECN-capable, and ECE means nothing, since ECN is
 * distrusted (distrust.h) or no window can answer a mark. A flow that begins so neither asks for
 * ECN nor agrees to it. */
#define UC_MODE_NO_ECT 0x20
/* ECN is trusted whatever happens: distrust.h tests nothing, and no address is remembered. */
#define UC_MODE_TRUST_ECN 0x40
/* Marked data of flows that the port does not know passes, answered or not: unanswered.h. */
#define UC_MODE_PASS_UNANSWERED 0x80

/* Parameters of law `dctcp`. */
struct uc_dctcp_parameters {
	__u8 gain_shift;              /* g = 2^-gain_shift, 1 to 15; RFC 8257 §4.2: 4 */
	__u8 initial_alpha_q7;        /* 0 to 128; RFC 8257 §4.2: 128, which is 1 */
	__u8 beta_q7;                 /* AC/DC's priority, 0 to 128; 128 is 1: plain DCTCP */
	__u8 minimum_window_segments; /* no mark cuts below it: 2 as Linux, 1 as AC/DC; 0 means 1 */
};

/* Parameters of law `delay`. */
struct uc_delay_parameters {
	__u32 target_us; /* the round-trip time to keep to at a window of 100 segments */
	__u32 range_us;  /* added to it at a window of one segment; 0: one target for all */
};

/* What a law may have of parameters; without trait UC_FAR it has the first bytes only, because a
 * SYN may be stored in the others (reopen.h). */
#define UC_PARAMETERS_BYTES      12
#define UC_PARAMETERS_NEAR_BYTES 4

/* The parameters of a policy's law. A law from outside the tree has its own struct in `more`. */
struct uc_parameters {
	union {
		struct uc_dctcp_parameters dctcp;
		struct uc_delay_parameters delay;
		__u8 more[UC_PARAMETERS_BYTES];
	};
};

struct uc_policy {
	__u8 law;     /* enum uc_law */
	__u8 profile; /* enum uc_profile */
	/*
	 * The number of SYNs of a flow that ask for ECN before the host falls back to a plain SYN:
	 * some middleboxes drop SYNs that ask (RFC 3168 §6.1.1.1). UC_ECN_SYNS_ALWAYS: all ask.
	 */
	__u8 ecn_syns;
	__u8 initial_window_segments; /* RFC 6928: 10; RFC 5681: 2 to 4 */
	__u8 echo;                    /* enum uc_echo_kind; of laws with trait UC_EXACT */
	__u8 guest_ecn;               /* enum uc_guest_ecn */
	__u8 guard_segments; /* drop data ending more than this many segments beyond the furthest
			      * advertised edge; 0: never */
	__u8 modes;          /* UC_MODE_* */
	struct uc_parameters parameters;
};

#define UC_ECN_SYNS_ALWAYS 255

/* Returns whether the port keeps the shadow and writes nothing. */
static __always_inline __u8 uc_observes(const struct uc_policy *policy)
{
	return policy->modes & UC_MODE_OBSERVE;
}

/* Returns whether no flow may go untranslated: strict.h. Flows that policy passes may. */
static __always_inline __u8 uc_is_strict(const struct uc_policy *policy)
{
	return policy->modes / UC_MODE_STRICT & uc_law_acts(policy->law);
}

/* Returns the guard's slack in segments; 0: no guard. Written without branches: callers are many,
 * and with branches the kernel's verifier took twice as long. */
static __always_inline __u8 uc_guard_segments(const struct uc_policy *policy)
{
	__u32 segments = policy->guard_segments;

	/* of 0 segments strict mode makes 1: only 0 less 1 has the highest bit */
	segments += (segments - 1U) >> 31 & uc_is_strict(policy);
	return segments * (1U - uc_observes(policy));
}

/* Rows as parameter.h has them, of the fields of uc_policy that an operator chooses for a law. */
#define UC_PARAMETERS_INSIDE(X)                                                                    \
	X(beta, UC_OF(DCTCP), Q7, parameters.dctcp.beta_q7, 0, 128, 128, UC_NO_WORDS,              \
	  "AC/DC's priority, 0 to 1 in steps of 1/128: a cut takes alpha * (1 - beta/2) of the "   \
	  "window; 1 is plain DCTCP")                                                              \
	X(gain, UC_OF(DCTCP), NUMBER, parameters.dctcp.gain_shift, 1, 10, 4, UC_NO_WORDS,          \
	  "the gain of the estimate alpha is 1/2^gain; 4 is RFC 8257's 1/16")                      \
	X(alpha, UC_OF(DCTCP), Q7, parameters.dctcp.initial_alpha_q7, 0, 128, 128, UC_NO_WORDS,    \
	  "the estimate alpha that a flow begins with, 0 to 1 in steps of 1/128; RFC 8257: 1")     \
	X(min_window, UC_OF(DCTCP), SEGMENTS, parameters.dctcp.minimum_window_segments, 1, 255, 2, \
	  UC_NO_WORDS,                                                                             \
	  "the window in segments below which no mark cuts; 2 as Linux, 1 for deep incast")        \
	X(echo, UC_OF(DCTCP), WORD, echo, 0, 1, UC_ECHO_EXACT, UC_ECHOES,                          \
	  "how the receivers that this port's guest sends to echo marks")                          \
	X(target, UC_OF(DELAY), US, parameters.delay.target_us, 1, UC_U32, UC_NEEDED, UC_NO_WORDS, \
	  "the round-trip time to keep to: that of an idle path and the queueing delay to accept") \
	X(target_range, UC_OF(DELAY), US, parameters.delay.range_us, 0, UC_U32, 0, UC_NO_WORDS,    \
	  "how much longer the target of a window of one segment is than that of a window of 100") \
	X(guest_ecn, UC_OF_ANY, WORD, guest_ecn, 0, 1, UC_GUEST_ECN_PASS, UC_GUEST_ECNS,           \
	  "what becomes of a guest that negotiates ECN itself")                                    \
	X(guard, UC_OF_ANY, SEGMENTS, guard_segments, 1, 255, 0, UC_NO_WORDS,                      \
	  "drops data that ends more than this many segments beyond the furthest advertised "      \
	  "window; without it none is dropped")                                                    \
	X(strict, UC_OF_ANY, FLAG, modes, 0, UC_MODE_STRICT, 0, UC_NO_WORDS,                       \
	  "lets no flow go untranslated: takes offers that can't be translated off its SYN, "      \
	  "holds "                                                                                 \
	  "it by drops, or drops it; implies guard = 1")                                           \
	X(no_window_scale, UC_OF_ANY, FLAG, modes, 0, UC_WITHHELD_WSCALE, 0, UC_NO_WORDS,          \
	  "removes window scaling from SYN and SYN-ACK: no window is above 65,535 bytes, and "     \
	  "each "                                                                                  \
	  "can be written to the byte")                                                            \
	X(no_sack, UC_OF_ANY, FLAG, modes, 0, UC_WITHHELD_SACK, 0, UC_NO_WORDS,                    \
	  "removes SACK from SYN and SYN-ACK")                                                     \
	X(no_timestamps, UC_OF_ANY, FLAG, modes, 0, UC_WITHHELD_TIMESTAMPS, 0, UC_NO_WORDS,        \
	  "removes timestamps from SYN and SYN-ACK")                                               \
	X(trust_ecn, UC_OF_ANY, FLAG, modes, 0, UC_MODE_TRUST_ECN, 0, UC_NO_WORDS,                 \
	  "never gives ECN up where packets with it are refused, lost or all marked: for paths "   \
	  "of one's own")                                                                          \
	X(pass_unanswered, UC_OF_ANY, FLAG, modes, 0, UC_MODE_PASS_UNANSWERED, 0, UC_NO_WORDS,     \
	  "passes marked data of flows that the table has forgotten, whose guest answers no "      \
	  "mark, instead of dropping it")                                                          \
	X(observe, UC_OF_ANY, FLAG, modes, 0, UC_MODE_OBSERVE, 0, UC_NO_WORDS,                     \
	  "keeps the law's state for each flow and writes nothing: a dry run")

#ifndef UC_PARAMETERS_MORE
#define UC_PARAMETERS_MORE(X)
#endif
#define UC_PARAMETERS(X)                                                                           \
	UC_PARAMETERS_INSIDE(X)                                                                    \
	UC_PARAMETERS_MORE(X)

#endif
