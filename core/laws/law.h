/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The one way by which everything outside this folder reaches a law. The switches are over
 * machines, not laws, so each machine is inlined once.
 */
#ifndef UC_LAWS_LAW_H
#define UC_LAWS_LAW_H

#include "coupled.h"
#include "delay.h"
#include "reno.h"

/* Checks that each law's own state fits into its room (near or far: flow.h), and its parameters
 * into those of a policy. */
#define UC_LAW_FITS(NAME, name, machine, cut, traits, state, parameters, ...)                      \
	_Static_assert((state) <= ((traits)&UC_FAR ? UC_FAR_BYTES : UC_NEAR_BYTES),                \
		       "law " #name ": its state may have 16 bytes, with UC_FAR 64");              \
	_Static_assert((parameters) <=                                                             \
			       ((traits)&UC_FAR ? UC_PARAMETERS_BYTES : UC_PARAMETERS_NEAR_BYTES), \
		       "law " #name ": its parameters may have 4 bytes, with UC_FAR 12");
UC_LAWS(UC_LAW_FITS)
#undef UC_LAW_FITS

/* Starts the law: both ends have agreed, and no data was sent yet. */
static __always_inline void uc_law_open(struct uc_flow *flow, struct uc_annex *annex)
{
	/* Below all data, not 0: comparisons are circular. RFC 6582 §3.2 step 1 sets recover to the
	 * initial sequence number; to the letter, the loss of the very first data segment would
	 * then wait for the timer, which no sender does and the RFC can't mean. */
	flow->reno.recover = flow->snd_una - 2; /* uc_is_first_flight() reads that, too */
	if (!uc_counts_segments(flow))
		flow->reno.reduced_seq = flow->snd_una - 1;
	uc_cut_open(flow);
	switch (uc_machine_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_MACHINE_##name:                                                                    \
		uc_##name##_open(flow, annex);                                                     \
		break;
		UC_MACHINES(UC_CASE)
#undef UC_CASE
	}
}

/* Takes in a data segment of the guest. */
static __always_inline void uc_law_sent(struct uc_flow *flow, struct uc_annex *annex,
					const struct uc_sample *sample)
{
	switch (uc_machine_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_MACHINE_##name:                                                                    \
		uc_##name##_sent(flow, annex, sample);                                             \
		break;
		UC_MACHINES(UC_CASE)
#undef UC_CASE
	}
}

/* Takes in an ACK to the guest. */
static __always_inline void uc_law_ack(struct uc_flow *flow, struct uc_annex *annex,
				       const struct uc_sample *sample)
{
	uc_cut_observe(flow, sample);
	switch (uc_machine_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_MACHINE_##name:                                                                    \
		uc_##name##_ack(flow, annex, sample);                                              \
		break;
		UC_MACHINES(UC_CASE)
#undef UC_CASE
	}
}

/* Returns the law's window in bytes from snd_una on; UC_UNLIMITED_BYTES: it throttles nothing. */
static __always_inline __u32 uc_law_window_bytes(const struct uc_flow *flow)
{
	switch (uc_machine_of(flow->policy.law)) {
#define UC_CASE(name)                                                                              \
	case UC_MACHINE_##name:                                                                    \
		return uc_##name##_window_bytes(flow);
		UC_MACHINES(UC_CASE)
#undef UC_CASE
	}
	return UC_UNLIMITED_BYTES;
}

/* Returns 1 if all that the flow sends behind its SYN is ECN-capable, retransmissions and pure ACKs
 * too: they would be dropped where its data are marked (RFC 8257 §3.6; RFC 8311 §4.3 lifts RFC
 * 3168's ban). */
static __always_inline __u8 uc_law_marks_all(const struct uc_flow *flow)
{
	return uc_law_has(flow->policy.law, UC_EXACT);
}

/* Returns 1 if every data packet carries CWR. CWR ends the peer's echo (RFC 3168 §6.1.3); on every
 * data packet it leaves the echo to that packet's own mark. */
static __always_inline __u8 uc_law_asks_exact(const struct uc_flow *flow)
{
	return uc_law_has(flow->policy.law, UC_EXACT) && flow->policy.echo == UC_ECHO_CLASSIC;
}

/*
 * Returns 1 if a duplicate ACK must keep the window of the ACK before it. RFC 5681's fast
 * retransmit in guests without SACK knows a duplicate by its unchanged window (Linux:
 * FLAG_WIN_UPDATE). Profile `rfc` is about guests that count duplicates by number: there the
 * inflation of RFC 6582 §3.2 step 4 is passed on.
 */
static __always_inline __u8 uc_law_holds_duplicates(const struct uc_flow *flow)
{
	return flow->policy.profile == UC_PROFILE_LINUX && !(flow->bits & UC_FLOW_SACK);
}

#endif
