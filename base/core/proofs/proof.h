/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What all proofs have in common. A proof is a program without input: it takes arbitrary values,
 * assumes what the core is promised, calls the core once, and states what must hold then. CBMC
 * converts it into one formula, and a SAT solver looks for values that break a claim. So a proof is
 * about all values at once, and "bounded" only by the loops, whose bounds scripts/prove lists.
 *
 * scripts/prove compiles each proof of flows once for each law and profile: PROOF_LAW and
 * PROOF_PROFILE.
 */
#ifndef UC_PROOF_H
#define UC_PROOF_H

#include "core.h"
#include "coupling.h"
#include "watch.h"

#define prove(words, condition) __CPROVER_assert(condition, words)
#define assume(condition)       __CPROVER_assume(condition)

/* CBMC takes any value for what a function without a body returns. */
__u8 any_byte(void);
__u16 any_short(void);
__u32 any_word(void);
__u64 any_long(void);
struct uc_flow any_flow(void);
struct uc_annex any_annex(void);
struct uc_segment any_segment(void);
struct uc_policy any_policy(void);

#endif
