// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The core is header-only; these give its entry points (and the tables) a symbol.
#include "coupling.h"
#include "leave.h"
#include "rebase.h"
#include "sound.h"
#include "step.h"

#ifndef UC_LAYOUT
#define UC_LAYOUT 0 // compiled by hand
#endif

struct law_row; // shim_law.c

// The entry points of a core: what depends on a flow's law. A library with other laws has the same
// table. Its pointers never lie in maps, so its name lacks the prefix.
struct core_table {
	// Number uc_core::LAYOUT of the sources; a program with another number must not call the
	// functions. It stays the first field.
	__u64 layout;
	void (*unknown)(struct uc_whole *flow, const struct uc_policy *policy, __u8 share,
			struct uc_asked *asked, const struct uc_segment *segment, __u64 now_ns,
			struct uc_edit *edit, struct uc_step *step);
	void (*known)(struct uc_whole *flow, const struct uc_policy *policy, __u8 share,
		      const struct uc_segment *segment, __u64 now_ns, struct uc_edit *edit,
		      struct uc_step *step);
	enum uc_reason (*translate)(struct uc_whole *flow, const struct uc_segment *segment,
				    __u64 now_ns, struct uc_edit *edit);
	__u32 (*window_bytes)(const struct uc_whole *flow);
	__u8 (*alpha_q30)(const struct uc_whole *flow, __u32 *alpha_q30);
	__u8 (*awaits)(struct uc_whole *flow);
	void (*report)(struct uc_whole *flow, __u64 now_ns, struct uc_ccc_report *report);
	void (*tell_share)(struct uc_whole *flow, const struct uc_segment *segment, __u8 awaits,
			   const struct uc_ccc_answer *answer, struct uc_edit *edit);
	void (*ask_group)(struct uc_ccc *ccc, struct uc_ccc_guest *guest, struct uc_ccc_flow *flow,
			  const struct uc_ccc_report *report, __u64 now_ns,
			  struct uc_ccc_answer *answer);
	const struct law_row *(*laws)(__u32 *count);
};

extern const struct core_table uc_shim_table;
const struct law_row *uc_shim_laws(__u32 *count);
__u32 uc_shim_verdict_of(__u8 strict, __u8 direction, __u32 reason);
__u32 uc_shim_step_without_room(const struct uc_policy *policy, const struct uc_segment *segment,
				__u32 reason, struct uc_edit *edit);
__u8 uc_shim_is_strict(const struct uc_policy *policy);
__u8 uc_shim_is_half_open(const struct uc_whole *flow);
__u8 uc_shim_is_stale(const struct uc_whole *flow, __u64 now_ns);
__u64 uc_shim_idle_max_ns(const struct uc_whole *flow);
__u8 uc_shim_is_closed(const struct uc_whole *flow);
__u8 uc_shim_leaves_group(const struct uc_whole *flow);
__u8 uc_shim_has_annex(const struct uc_whole *flow);
void uc_shim_rebase(struct uc_whole *flow, __s64 units);
__u8 uc_shim_leave(struct uc_whole *flow);
void uc_shim_return(struct uc_whole *flow);
__u8 uc_shim_is_sound(const struct uc_whole *flow);
__u8 uc_shim_is_coupled(const struct uc_whole *flow);
int uc_shim_forgets(__u32 reason);
__u32 uc_shim_remote_news_of(const struct uc_whole *flow);
void uc_shim_remember(struct uc_remote *remote, const struct uc_whole *flow, __u64 now_ns);
__u8 uc_shim_avoids_ecn(const struct uc_remote *remote, const struct uc_policy *policy,
			const struct uc_segment *segment, __u64 now_ns);
__u32 uc_shim_counted_as(__u32 reason, const struct uc_segment *segment,
			 const struct uc_edit *edit);
void uc_shim_set_sack(struct uc_segment *segment, const struct uc_sack *sack);
int uc_shim_drops(__u32 reason);
const char *uc_shim_reason_label(__u32 reason);
const char *uc_shim_reason_meaning(__u32 reason);

static void table_unknown(struct uc_whole *flow, const struct uc_policy *policy, __u8 share,
			  struct uc_asked *asked, const struct uc_segment *segment, __u64 now_ns,
			  struct uc_edit *edit, struct uc_step *step)
{
	struct uc_given given = {.policy = policy, .share = share};

	*step = uc_step_unknown(&flow->flow, &flow->annex, &given, asked, segment, now_ns, edit);
}

// A flow always has room for an annex here: it is the next one, too.
static void table_known(struct uc_whole *flow, const struct uc_policy *policy, __u8 share,
			const struct uc_segment *segment, __u64 now_ns, struct uc_edit *edit,
			struct uc_step *step)
{
	struct uc_given given = {.policy = policy, .share = share};

	*step = uc_step_known(&flow->flow, &flow->annex, &flow->annex, &given, segment, now_ns,
			      edit);
}

static enum uc_reason table_translate(struct uc_whole *flow, const struct uc_segment *segment,
				      __u64 now_ns, struct uc_edit *edit)
{
	return uc_translate(&flow->flow, &flow->annex, segment, now_ns, edit);
}

static __u32 table_window_bytes(const struct uc_whole *flow)
{
	return uc_law_window_bytes(&flow->flow);
}

// Returns 1 and DCTCP's estimate if the flow's law keeps one, else 0.
static __u8 table_alpha_q30(const struct uc_whole *flow, __u32 *alpha_q30)
{
	if (uc_cut_of(flow->flow.policy.law) != UC_CUT_dctcp)
		return 0;
	*alpha_q30 = flow->flow.dctcp.alpha_q30;
	return 1;
}

static __u8 table_awaits(struct uc_whole *flow)
{
	return uc_awaits(&flow->flow);
}

static void table_report(struct uc_whole *flow, __u64 now_ns, struct uc_ccc_report *report)
{
	*report = uc_coupled_report(&flow->flow, &flow->annex, now_ns);
}

static void table_tell_share(struct uc_whole *flow, const struct uc_segment *segment, __u8 awaits,
			     const struct uc_ccc_answer *answer, struct uc_edit *edit)
{
	uc_tell_share(&flow->flow, &flow->annex, segment, awaits, answer, edit);
}

static void table_ask_group(struct uc_ccc *ccc, struct uc_ccc_guest *guest,
			    struct uc_ccc_flow *flow, const struct uc_ccc_report *report,
			    __u64 now_ns, struct uc_ccc_answer *answer)
{
	*answer = flow->priority ? uc_ccc_update(ccc, guest, flow, report, now_ns)
				 : uc_ccc_register(ccc, guest, flow, 1, report, now_ns);
}

const struct core_table uc_shim_table = {
	.layout = UC_LAYOUT,
	.unknown = table_unknown,
	.known = table_known,
	.translate = table_translate,
	.window_bytes = table_window_bytes,
	.alpha_q30 = table_alpha_q30,
	.awaits = table_awaits,
	.report = table_report,
	.tell_share = table_tell_share,
	.ask_group = table_ask_group,
	.laws = uc_shim_laws,
};

__u32 uc_shim_verdict_of(__u8 strict, __u8 direction, __u32 reason)
{
	return uc_verdict_of(strict, direction, reason);
}

__u32 uc_shim_step_without_room(const struct uc_policy *policy, const struct uc_segment *segment,
				__u32 reason, struct uc_edit *edit)
{
	return uc_step_without_room(policy, segment, reason, edit);
}

__u8 uc_shim_is_strict(const struct uc_policy *policy)
{
	return uc_is_strict(policy);
}

__u8 uc_shim_is_half_open(const struct uc_whole *flow)
{
	return uc_is_half_open(&flow->flow);
}

__u8 uc_shim_is_stale(const struct uc_whole *flow, __u64 now_ns)
{
	return uc_is_stale(&flow->flow, now_ns);
}

__u64 uc_shim_idle_max_ns(const struct uc_whole *flow)
{
	return uc_idle_max_ns(&flow->flow);
}

__u8 uc_shim_is_closed(const struct uc_whole *flow)
{
	return uc_is_closed(&flow->flow);
}

__u8 uc_shim_leaves_group(const struct uc_whole *flow)
{
	return uc_leaves_group(&flow->flow);
}

__u8 uc_shim_has_annex(const struct uc_whole *flow)
{
	return uc_has_annex(&flow->flow);
}

void uc_shim_rebase(struct uc_whole *flow, __s64 units)
{
	uc_rebase(&flow->flow, &flow->annex, uc_shift_by(units));
}

__u8 uc_shim_leave(struct uc_whole *flow)
{
	return uc_leave(&flow->flow);
}

void uc_shim_return(struct uc_whole *flow)
{
	uc_return(&flow->flow);
}

__u8 uc_shim_is_sound(const struct uc_whole *flow)
{
	return uc_is_sound(&flow->flow);
}

__u8 uc_shim_is_coupled(const struct uc_whole *flow)
{
	return uc_is_coupled(&flow->flow);
}

void uc_shim_set_sack(struct uc_segment *segment, const struct uc_sack *sack)
{
	uc_set_sack_mark(segment, uc_sack_mark(sack, segment->ack));
}

__u32 uc_shim_remote_news_of(const struct uc_whole *flow)
{
	return uc_remote_news_of(&flow->flow);
}

void uc_shim_remember(struct uc_remote *remote, const struct uc_whole *flow, __u64 now_ns)
{
	uc_remember(remote, uc_remote_news_of(&flow->flow), now_ns);
}

__u8 uc_shim_avoids_ecn(const struct uc_remote *remote, const struct uc_policy *policy,
			const struct uc_segment *segment, __u64 now_ns)
{
	return uc_opens_blind(policy, segment) ||
	       (uc_remembers_remotes(policy) && uc_is_distrusted(remote, now_ns));
}

__u32 uc_shim_counted_as(__u32 reason, const struct uc_segment *segment, const struct uc_edit *edit)
{
	return uc_counted_as(reason, segment, edit);
}

int uc_shim_forgets(__u32 reason)
{
	return uc_forgets(reason);
}

int uc_shim_drops(__u32 reason)
{
	return uc_drops(reason);
}

const char *uc_shim_reason_label(__u32 reason)
{
	static const char *const labels[] = {
#define LABEL(name, label, meaning) label,
		UC_REASONS(LABEL)
#undef LABEL
	};

	return reason < UC_REASON_COUNT ? labels[reason] : "unknown";
}

const char *uc_shim_reason_meaning(__u32 reason)
{
	static const char *const meanings[] = {
#define MEANING(name, label, meaning) meaning,
		UC_REASONS(MEANING)
#undef MEANING
	};

	return reason < UC_REASON_COUNT ? meanings[reason] : "unknown";
}
