/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A start under HWatch, at the receiving host: the arithmetic is defined whatever the policy, the
 * path and the link are, and the window is at most the receiver's, and 0 only if the receiver's is.
 */
#include "proof.h"

struct uc_watch_flow any_start(void);
struct uc_watch_policy any_watch_policy(void);
struct uc_watch_path any_path(void);
struct uc_watch_bucket any_bucket(void);

/* Returns whether the counts of a start are in their ranges. */
static __u8 is_start(const struct uc_watch_flow *flow)
{
	if (flow->wscale > UC_WSCALE_MAX || flow->probes_sent > UC_WATCH_PROBES_MAX ||
	    (__u64)flow->seen >> flow->probes_sent ||
	    flow->probes_marked > uc_watch_ones(flow->seen))
		return 0;
	return flow->stage == UC_WATCH_COUNTING
		       ? !flow->mss_bytes || flow->mss_bytes >= UC_MSS_MIN_BYTES
		       : flow->mss_bytes >= UC_MSS_MIN_BYTES - UC_TIMESTAMPS_BYTES;
}

int main(void)
{
	struct uc_watch_flow flow = any_start(), none = {};
	struct uc_watch_policy policy = any_watch_policy();
	struct uc_watch_path path = any_path();
	struct uc_watch_bucket bucket = any_bucket();
	struct uc_segment segment = any_segment();
	struct uc_watch_answer answer;

	assume(is_start(&flow));
	prove("a start begins sound", is_start(&none));
	switch (any_byte()) {
	case 0:
		uc_watch_timed(&flow, &policy, any_byte(), any_word(), any_long());
		uc_watch_probe(&flow, any_byte(), any_byte(), any_byte());
		break;
	case 1:
		uc_watch_is_steady(&flow, &segment);
		uc_watch_to_guest(&flow, &segment);
		break;
	default:
		answer = uc_watch_from_guest(&flow, &policy, &path, &bucket, &segment, any_long(),
					     any_word());
		prove("a window is never above the receiver's", answer.window <= segment.window);
		prove("a window is 0 only if the receiver's is", answer.window || !segment.window);
	}
	prove("the start stays sound", is_start(&flow));
	return 0;
}
