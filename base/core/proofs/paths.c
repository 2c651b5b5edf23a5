/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A start under HWatch, at the sending host, and the pacing of starts at a link: the arithmetic is
 * defined, whatever the policy and the records are; no more probes leave than may, within the
 * longest span, and no packet waits longer than policy's limit.
 */
#include "proof.h"

struct uc_watch_policy any_watch_policy(void);
struct uc_watch_path any_path(void);
struct uc_watch_bucket any_bucket(void);

int main(void)
{
	struct uc_watch_policy policy = any_watch_policy();
	struct uc_watch_path path = any_path();
	struct uc_watch_bucket bucket = any_bucket();
	__u64 now_ns = any_long();
#ifdef PROOF_PROBE
	__u32 probes = uc_watch_probes(&policy, &path, now_ns), index = any_word();
	__u32 span_ns = uc_watch_span_ns(&policy, &path);

	assume(index < probes);
	prove("no more probes leave than may", probes <= UC_WATCH_PROBES_MAX);
	prove("probes leave within their longest span", span_ns <= UC_WATCH_SPAN_MAX_US * 1000);
	uc_watch_offset_ns(span_ns, probes, index, any_word());
#elif defined(PROOF_ANSWER)
	uc_watch_answered(&policy, &path, any_word(), any_short(), now_ns);
	uc_watch_echoed(&path);
#elif defined(PROOF_HEAR)
	uc_watch_heard(&bucket, &policy, any_word(), any_byte(), now_ns);
	uc_watch_settle(&bucket, &policy, (__s32)any_word());
#else
	__u64 wait_ns = uc_watch_wait_ns(&bucket, &policy, any_word(), now_ns);

	prove("no packet waits longer than policy says",
	      wait_ns <= policy.wait_us * 1000ULL && wait_ns <= UC_WATCH_WAIT_MAX_US * 1000ULL);
#endif
	return 0;
}
