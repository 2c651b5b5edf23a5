/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The table of laws: one row for each congestion control law, its traits, and the two halves that
 * it is made of. laws/law.h dispatches by it; everything that lists laws follows from it: the
 * command line, experiment and policy files, their schema, and docs/laws.md.
 *
 * A law is a machine, which grows the window and reduces it on a loss, and a cut, which says how
 * much of the window a mark leaves. Laws share machines and cuts, so that each is compiled once.
 *
 * A law from outside the tree adds rows with more/table.h and functions with more/law.h, both
 * compiled in with -DUC_MORE_LAWS by `uc law build` (docs/write-a-law.md).
 */
#ifndef UC_LAWS_TABLE_H
#define UC_LAWS_TABLE_H

#include <linux/types.h>

/*
 * Traits of a law.
 *
 * WANTS_ECN: uses marks, so the host offers ECN and sends ECT. Without it nothing that a flow sends
 *   is ECN-capable: the network must not mark what nobody answers for (RFC 3168 §5).
 * NEEDS_ECN: cannot work without marks; a flow whose peer refuses ECN passes unmodified.
 * EXACT: depends on which bytes were marked: the host echoes marks exactly to such a peer, asks for
 *   that, and sends everything behind the SYN as ECT, also retransmissions and pure ACKs, which
 *   would be dropped where data are marked (RFC 8257 §3.6; RFC 8311 §4.3 lifts RFC 3168's ban).
 * SHALLOW: a cut may leave more than half of the window, so a loss during it still halves
 *   (RFC 8257 §3.5).
 * BYTES: cwnd and ssthresh count bytes in both profiles. Without it they count whole segments in
 *   profile `linux`.
 * TIMED: needs several round-trip times of each window (track.h).
 * FAR: keeps its own state in uc_far(), not in uc_near() (flow.h).
 * GROUPED: a flow's window is always its share of a group's (laws/coupled.h).
 */
#define UC_WANTS_ECN 0x01
#define UC_NEEDS_ECN 0x02
#define UC_EXACT     0x04
#define UC_SHALLOW   0x08
#define UC_BYTES     0x10
#define UC_TIMED     0x20
#define UC_FAR       0x40
#define UC_GROUPED   0x80

#ifdef UC_MORE_LAWS
#include "more/table.h"
#endif
#ifndef UC_MACHINES_MORE
#define UC_MACHINES_MORE(X)
#endif
#ifndef UC_CUTS_MORE
#define UC_CUTS_MORE(X)
#endif
#ifndef UC_LAWS_MORE
#define UC_LAWS_MORE(X)
#endif

/* X(name); a machine has uc_NAME_open(), _sent(), _ack() and _window_bytes(). */
#define UC_MACHINES(X)                                                                             \
	X(reno)                                                                                    \
	X(delay)                                                                                   \
	UC_MACHINES_MORE(X)

/* X(name); a cut has uc_NAME_open(), _observe(), _remains(), _least() and _signal(). */
#define UC_CUTS(X)                                                                                 \
	X(half)                                                                                    \
	X(dctcp)                                                                                   \
	UC_CUTS_MORE(X)

/*
 * X(NAME, name, machine, cut, traits, state, parameters, what it is, why it cuts)
 *
 * `state` and `parameters` are the sizes in bytes of what the law stores of its own, in the room
 * that its traits choose, and of its parameters; 0: it has none.
 *
 * The last is what `uc explain` says of a reduction. In it, {target} is the policy's target in
 * microseconds, {us} the cut's signal in microseconds, and {q30} the signal as a fraction of 2^30.
 */
#define UC_LAWS_INSIDE(X)                                                                          \
	X(PASS, pass, reno, half, 0, 0, 0, "leaves every flow unmodified", "")                     \
	X(ECN, ecn, reno, half, UC_WANTS_ECN | UC_NEEDS_ECN, 0, 0,                                 \
	  "NewReno that obeys ECN (RFC 3168)", "the receiver echoed a mark")                       \
	X(DCTCP, dctcp, reno, dctcp, UC_WANTS_ECN | UC_NEEDS_ECN | UC_EXACT | UC_SHALLOW,          \
	  sizeof(struct uc_dctcp), sizeof(struct uc_dctcp_parameters), "DCTCP (RFC 8257)",         \
	  "the receiver echoed marks; alpha, the marked fraction, was {q30}")                      \
	X(DELAY, delay, delay, half, UC_BYTES | UC_TIMED | UC_FAR, sizeof(struct uc_delay),        \
	  sizeof(struct uc_delay_parameters),                                                      \
	  "keeps round trips to a target, after Swift (SIGCOMM 2020)",                             \
	  "two round trips in a row were longer than the target of {target} us (smoothed: {us} "   \
	  "us)")                                                                                   \
	X(COUPLED, coupled, reno, half, UC_WANTS_ECN | UC_GROUPED, 0, 0,                           \
	  "NewReno whose window is a share of its group's", "the receiver echoed a mark")

#define UC_LAWS(X)                                                                                 \
	UC_LAWS_INSIDE(X)                                                                          \
	UC_LAWS_MORE(X)

/* A law's number fits in four bits. Laws from outside the tree have those from 12 on, so that the
 * number of a law never changes. */
#define UC_LAW_NUMBERS 16
#define UC_LAW_OUTSIDE 12

enum uc_law {
#define UC_LAW_ENUM(NAME, ...) UC_LAW_##NAME,
	UC_LAWS_INSIDE(UC_LAW_ENUM) UC_LAW_INSIDE_COUNT,
	UC_LAW_BEFORE_OUTSIDE = UC_LAW_OUTSIDE - 1,
	UC_LAWS_MORE(UC_LAW_ENUM) UC_LAW_END
#undef UC_LAW_ENUM
};

enum uc_machine {
#define UC_MACHINE_ENUM(name) UC_MACHINE_##name,
	UC_MACHINES(UC_MACHINE_ENUM)
#undef UC_MACHINE_ENUM
};

enum uc_cut {
#define UC_CUT_ENUM(name) UC_CUT_##name,
	UC_CUTS(UC_CUT_ENUM)
#undef UC_CUT_ENUM
};

_Static_assert(UC_LAW_INSIDE_COUNT <= UC_LAW_OUTSIDE, "the tree's laws have the numbers below 12");
_Static_assert((int)UC_LAW_END <= UC_LAW_NUMBERS, "four laws from outside the tree, at most");

/* Checks that a law with timers has trait UC_FAR, and a law of machine `delay` has timers: the
 * timers and that machine's state lie in the far room, in which a law without UC_FAR may store a
 * SYN (reopen.h). */
#define UC_LAW_ROOM(NAME, name, machine, cut, traits, ...)                                         \
	_Static_assert(!((traits)&UC_TIMED) || (traits)&UC_FAR,                                    \
		       "law " #name ": trait UC_TIMED needs UC_FAR");                              \
	_Static_assert(UC_MACHINE_##machine != UC_MACHINE_delay ||                                 \
			       ((traits) & (UC_TIMED | UC_BYTES)) == (UC_TIMED | UC_BYTES),        \
		       "law " #name ": machine delay needs UC_TIMED and UC_BYTES");
UC_LAWS(UC_LAW_ROOM)
#undef UC_LAW_ROOM

/* Returns 1 if the law has the trait, 0 if not, or if no law has the number. It compiles to a
 * constant and a shift: no branch, no memory. */
static __always_inline __u8 uc_law_has(__u8 law, __u32 trait)
{
	__u32 laws = 0;

#define UC_LAW_WITH(NAME, name, machine, cut, traits, ...)                                         \
	laws |= (traits)&trait ? 1U << UC_LAW_##NAME : 0;
	UC_LAWS(UC_LAW_WITH)
#undef UC_LAW_WITH
	return laws >> (law & (UC_LAW_NUMBERS - 1)) & 1;
}

/* Returns 1 if the law acts on flows: 0 for `pass`, and for a number that no law has, so that flows
 * under a policy of newer or other programs pass unmodified. No branch, as above: the verifier of
 * BPF follows each one. */
static __always_inline __u8 uc_law_acts(__u8 law)
{
	__u32 laws = 0;

#define UC_LAW_ACTS(NAME, ...) laws |= 1U << UC_LAW_##NAME;
	UC_LAWS(UC_LAW_ACTS)
#undef UC_LAW_ACTS
	laws &= ~(1U << UC_LAW_PASS);
	return laws >> (law & (UC_LAW_NUMBERS - 1)) & (law / UC_LAW_NUMBERS - 1U) >> 31;
}

/* Returns the law's machine; reno if no law has the number. It reads four bits for each law from
 * one constant: no branch. */
static __always_inline enum uc_machine uc_machine_of(__u8 law)
{
	__u64 machines = 0;

#define UC_LAW_MACHINE(NAME, name, machine, ...)                                                   \
	machines |= (__u64)UC_MACHINE_##machine << 4 * UC_LAW_##NAME;
	UC_LAWS(UC_LAW_MACHINE)
#undef UC_LAW_MACHINE
	return (enum uc_machine)(machines >> 4 * (law & (UC_LAW_NUMBERS - 1)) & 15);
}

/* Returns the law's cut; half where no law has the number. */
static __always_inline enum uc_cut uc_cut_of(__u8 law)
{
	__u64 cuts = 0;

#define UC_LAW_CUT(NAME, name, machine, cut, ...) cuts |= (__u64)UC_CUT_##cut << 4 * UC_LAW_##NAME;
	UC_LAWS(UC_LAW_CUT)
#undef UC_LAW_CUT
	return (enum uc_cut)(cuts >> 4 * (law & (UC_LAW_NUMBERS - 1)) & 15);
}

#endif
