// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Symbols for the coupled congestion controller.
#include "coupling.h"
#include "coupling/across.h"

void uc_shim_ccc_open(struct uc_ccc *ccc, const struct uc_ccc_policy *policy, __u64 now_ns);
void uc_shim_ccc_register(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
			  __u8 priority, const struct uc_ccc_report *report, __u64 now_ns,
			  struct uc_ccc_answer *answer);
void uc_shim_ccc_update(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
			const struct uc_ccc_report *report, __u64 now_ns,
			struct uc_ccc_answer *answer);
void uc_shim_ccc_ask(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
		     __u64 now_ns, struct uc_ccc_answer *answer);
void uc_shim_ccc_leave(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
		       __u64 now_ns);
__u32 uc_shim_ccc_window_bytes(const struct uc_ccc *ccc);
__u64 uc_shim_ccc_epoch_ns(const struct uc_ccc *ccc);
__u32 uc_shim_ccc_whole(struct uc_ccc_segments *segments, __u32 cwnd_bytes, __u32 acked_bytes,
			__u16 mss_bytes);
__u64 uc_shim_ccc_guest_share_bytes(const struct uc_ccc *ccc, const struct uc_ccc_guest *guest);
__u64 uc_shim_ccc_share_bytes(const struct uc_ccc *ccc, const struct uc_ccc_guest *guest,
			      const struct uc_ccc_flow *flow);
void uc_shim_ccc_follow(struct uc_ccc *ccc, struct uc_ccc_link *link,
			const struct uc_ccc_told *told, __u64 now_ns);
void uc_shim_ccc_note(const struct uc_ccc *ccc, struct uc_ccc_link *link,
		      const struct uc_ccc_report *report, __u64 window_was_q16, __u32 cuts_were,
		      __u64 now_ns);

void uc_shim_ccc_open(struct uc_ccc *ccc, const struct uc_ccc_policy *policy, __u64 now_ns)
{
	uc_ccc_open(ccc, policy, now_ns);
}

void uc_shim_ccc_register(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
			  __u8 priority, const struct uc_ccc_report *report, __u64 now_ns,
			  struct uc_ccc_answer *answer)
{
	*answer = uc_ccc_register(ccc, guest, flow, priority, report, now_ns);
}

void uc_shim_ccc_update(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
			const struct uc_ccc_report *report, __u64 now_ns,
			struct uc_ccc_answer *answer)
{
	*answer = uc_ccc_update(ccc, guest, flow, report, now_ns);
}

void uc_shim_ccc_ask(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
		     __u64 now_ns, struct uc_ccc_answer *answer)
{
	*answer = uc_ccc_ask(ccc, guest, flow, now_ns);
}

void uc_shim_ccc_leave(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
		       __u64 now_ns)
{
	uc_ccc_leave(ccc, guest, flow, now_ns);
}

__u32 uc_shim_ccc_window_bytes(const struct uc_ccc *ccc)
{
	return uc_ccc_window_bytes(ccc);
}

__u32 uc_shim_ccc_whole(struct uc_ccc_segments *segments, __u32 cwnd_bytes, __u32 acked_bytes,
			__u16 mss_bytes)
{
	return uc_ccc_whole(segments, cwnd_bytes, acked_bytes, mss_bytes);
}

__u64 uc_shim_ccc_epoch_ns(const struct uc_ccc *ccc)
{
	return uc_ccc_epoch_ns(ccc);
}

__u64 uc_shim_ccc_guest_share_bytes(const struct uc_ccc *ccc, const struct uc_ccc_guest *guest)
{
	return uc_ccc_guest_share(ccc, guest, uc_ccc_window_bytes(ccc));
}

__u64 uc_shim_ccc_share_bytes(const struct uc_ccc *ccc, const struct uc_ccc_guest *guest,
			      const struct uc_ccc_flow *flow)
{
	struct uc_ccc_guest now = *guest;

	/* a guest that has said nothing in this epoch hasn't seen it begin */
	uc_ccc_turn(&now.flows, ccc->guests.epoch);
	return uc_ccc_share(ccc, &now, flow, uc_ccc_window_bytes(ccc));
}

void uc_shim_ccc_follow(struct uc_ccc *ccc, struct uc_ccc_link *link,
			const struct uc_ccc_told *told, __u64 now_ns)
{
	uc_ccc_follow(ccc, link, told, now_ns);
}

void uc_shim_ccc_note(const struct uc_ccc *ccc, struct uc_ccc_link *link,
		      const struct uc_ccc_report *report, __u64 window_was_q16, __u32 cuts_were,
		      __u64 now_ns)
{
	uc_ccc_note(ccc, link, report, window_was_q16, cuts_were, now_ns);
}
