/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * One call of the coupled congestion controller, on an arbitrary group, guest and flow of which
 * only is_group() is known, with an arbitrary report: the arithmetic is defined, and the group's
 * own numbers stay in their ranges. PROOF_FOLLOW: an arbitrary answer of the host of several
 * groups.
 */
#include "coupling/across.h"
#include "proof.h"

struct uc_ccc any_group(void);
struct uc_ccc_guest any_guest(void);
struct uc_ccc_flow any_member(void);
struct uc_ccc_report any_report(void);
struct uc_ccc_link any_link(void);
struct uc_ccc_told any_told(void);

/* Returns whether the group's own numbers are in their ranges. */
static __u8 is_group(const struct uc_ccc *ccc)
{
	const struct uc_ccc_policy *policy = &ccc->policy;

	return policy->aggressiveness_q16 <= UC_CCC_ONE_Q16 && policy->window_max_bytes &&
	       policy->window_max_bytes <= UC_CCC_WINDOW_MAX_BYTES &&
	       ccc->window_q16 <= (__u64)UC_CCC_WINDOW_MAX_BYTES << 16 &&
	       ccc->ssthresh_bytes <= UC_CCC_INFINITE_SSTHRESH &&
	       ccc->srtt_max_us <= UC_CCC_SRTT_MAX_US && ccc->srtt_was_us <= UC_CCC_SRTT_MAX_US;
}

int main(void)
{
	struct uc_ccc ccc = any_group();
	struct uc_ccc_guest guest = any_guest();
	struct uc_ccc_flow flow = any_member();
	struct uc_ccc_report report = any_report();
	struct uc_ccc_answer answer;
	__u64 now_ns = any_long();

	assume(is_group(&ccc));
#ifdef PROOF_REGISTER
	answer = uc_ccc_register(&ccc, &guest, &flow, any_byte(), &report, now_ns);
#elif defined(PROOF_UPDATE)
	answer = uc_ccc_update(&ccc, &guest, &flow, &report, now_ns);
#elif defined(PROOF_FOLLOW)
	struct uc_ccc_link link = any_link();
	struct uc_ccc_told told = any_told();

	uc_ccc_follow(&ccc, &link, &told, now_ns);
	report = uc_ccc_believe(&report);
	uc_ccc_note(&ccc, &link, &report, any_long(), any_word(), now_ns);
#elif defined(PROOF_ASK)
	answer = uc_ccc_ask(&ccc, &guest, &flow, now_ns);
#else
	uc_ccc_leave(&ccc, &guest, &flow, now_ns);
#endif
	prove("the group stays sound", is_group(&ccc));
	return 0;
}
