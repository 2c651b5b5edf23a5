// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Symbols for HWatch's start.
#include "watch.h"

__u32 uc_shim_watch_probes(const struct uc_watch_policy *policy, struct uc_watch_path *path,
			   __u64 now_ns);
__u32 uc_shim_watch_span_ns(const struct uc_watch_policy *policy, const struct uc_watch_path *path);
__u32 uc_shim_watch_offset_ns(__u32 span_ns, __u32 probes, __u32 index, __u32 random);
void uc_shim_watch_answered(const struct uc_watch_policy *policy, struct uc_watch_path *path,
			    __u32 window_bytes, __u16 mss_bytes, __u64 rtt_ns);
void uc_shim_watch_echoed(struct uc_watch_path *path);
__u8 uc_shim_watch_probe(struct uc_watch_flow *flow, __u8 index, __u8 probes, __u8 ecn);
__u8 uc_shim_watch_is_steady(const struct uc_watch_flow *flow, const struct uc_segment *segment);
__u8 uc_shim_watch_timed(struct uc_watch_flow *flow, const struct uc_watch_policy *policy, __u8 ecn,
			 __u32 sent_ns, __u64 now_ns);
void uc_shim_watch_settle(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			  __s32 bytes);
__u8 uc_shim_watch_to_guest(struct uc_watch_flow *flow, const struct uc_segment *segment);
void uc_shim_watch_from_guest(struct uc_watch_flow *flow, const struct uc_watch_policy *policy,
			      struct uc_watch_path *path, const struct uc_watch_bucket *bucket,
			      const struct uc_segment *segment, __u64 now_ns, __u32 random,
			      struct uc_watch_answer *answer);
void uc_shim_watch_heard(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			 __u32 bytes, __u8 steady, __u64 now_ns);
__u64 uc_shim_watch_wait_ns(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			    __u32 grant_bytes, __u64 now_ns);
__u32 uc_shim_watch_ask(struct uc_watch_grant *grant, const struct uc_watch_granter *granter,
			const struct uc_watch_policy *policy, const struct uc_segment *segment);
__u32 uc_shim_watch_ask_for(__s32 *owed_bytes, __u32 grant_bytes, __s32 settle_bytes);
void uc_shim_watch_granted(struct uc_watch_grant *grant, struct uc_watch_granter *granter,
			   const struct uc_watch_policy *policy, __u64 wait_ns, __u64 now_ns);
__u64 uc_shim_watch_grant_wait_ns(const struct uc_watch_grant *grant,
				  const struct uc_watch_granter *granter, __u64 answered_ns,
				  __u64 now_ns);
void uc_shim_watch_unanswered(const struct uc_watch_grant *grant, struct uc_watch_granter *granter);
void uc_shim_watch_note_sent(struct uc_watch_grant *grant, struct uc_watch_granter *granter,
			     const struct uc_watch_policy *policy,
			     const struct uc_segment *segment);
__u64 uc_shim_watch_grant_ns(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			     __u32 bytes, __u64 now_ns);

__u32 uc_shim_watch_probes(const struct uc_watch_policy *policy, struct uc_watch_path *path,
			   __u64 now_ns)
{
	return uc_watch_probes(policy, path, now_ns);
}

__u32 uc_shim_watch_span_ns(const struct uc_watch_policy *policy, const struct uc_watch_path *path)
{
	return uc_watch_span_ns(policy, path);
}

__u32 uc_shim_watch_offset_ns(__u32 span_ns, __u32 probes, __u32 index, __u32 random)
{
	return uc_watch_offset_ns(span_ns, probes, index, random);
}

void uc_shim_watch_answered(const struct uc_watch_policy *policy, struct uc_watch_path *path,
			    __u32 window_bytes, __u16 mss_bytes, __u64 rtt_ns)
{
	uc_watch_answered(policy, path, window_bytes, mss_bytes, rtt_ns);
}

void uc_shim_watch_echoed(struct uc_watch_path *path)
{
	uc_watch_echoed(path);
}

__u8 uc_shim_watch_probe(struct uc_watch_flow *flow, __u8 index, __u8 probes, __u8 ecn)
{
	return uc_watch_probe(flow, index, probes, ecn);
}

__u8 uc_shim_watch_to_guest(struct uc_watch_flow *flow, const struct uc_segment *segment)
{
	return uc_watch_to_guest(flow, segment);
}

void uc_shim_watch_from_guest(struct uc_watch_flow *flow, const struct uc_watch_policy *policy,
			      struct uc_watch_path *path, const struct uc_watch_bucket *bucket,
			      const struct uc_segment *segment, __u64 now_ns, __u32 random,
			      struct uc_watch_answer *answer)
{
	*answer = uc_watch_from_guest(flow, policy, path, bucket, segment, now_ns, random);
}

__u64 uc_shim_watch_wait_ns(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			    __u32 grant_bytes, __u64 now_ns)
{
	return uc_watch_wait_ns(bucket, policy, grant_bytes, now_ns);
}

void uc_shim_watch_heard(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			 __u32 bytes, __u8 steady, __u64 now_ns)
{
	uc_watch_heard(bucket, policy, bytes, steady, now_ns);
}

__u8 uc_shim_watch_is_steady(const struct uc_watch_flow *flow, const struct uc_segment *segment)
{
	return uc_watch_is_steady(flow, segment);
}

void uc_shim_watch_settle(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			  __s32 bytes)
{
	uc_watch_settle(bucket, policy, bytes);
}

__u8 uc_shim_watch_timed(struct uc_watch_flow *flow, const struct uc_watch_policy *policy, __u8 ecn,
			 __u32 sent_ns, __u64 now_ns)
{
	return uc_watch_timed(flow, policy, ecn, sent_ns, now_ns);
}

__u32 uc_shim_watch_ask(struct uc_watch_grant *grant, const struct uc_watch_granter *granter,
			const struct uc_watch_policy *policy, const struct uc_segment *segment)
{
	return uc_watch_ask(grant, granter, policy, segment);
}

__u32 uc_shim_watch_ask_for(__s32 *owed_bytes, __u32 grant_bytes, __s32 settle_bytes)
{
	return uc_watch_ask_for(owed_bytes, grant_bytes, settle_bytes);
}

void uc_shim_watch_granted(struct uc_watch_grant *grant, struct uc_watch_granter *granter,
			   const struct uc_watch_policy *policy, __u64 wait_ns, __u64 now_ns)
{
	uc_watch_granted(grant, granter, policy, wait_ns, now_ns);
}

__u64 uc_shim_watch_grant_wait_ns(const struct uc_watch_grant *grant,
				  const struct uc_watch_granter *granter, __u64 answered_ns,
				  __u64 now_ns)
{
	return uc_watch_grant_wait_ns(grant, granter, answered_ns, now_ns);
}

void uc_shim_watch_unanswered(const struct uc_watch_grant *grant, struct uc_watch_granter *granter)
{
	uc_watch_unanswered(grant, granter);
}

void uc_shim_watch_note_sent(struct uc_watch_grant *grant, struct uc_watch_granter *granter,
			     const struct uc_watch_policy *policy, const struct uc_segment *segment)
{
	uc_watch_note_sent(grant, granter, policy, segment);
}

__u64 uc_shim_watch_grant_ns(struct uc_watch_bucket *bucket, const struct uc_watch_policy *policy,
			     __u32 bytes, __u64 now_ns)
{
	return uc_watch_grant_ns(bucket, policy, bytes, now_ns);
}
