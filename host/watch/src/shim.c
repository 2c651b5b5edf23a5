/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What user space shares with the watch programs, as functions that Rust can call. */
#include "bpf/watch/layout.h"

__u64 uc_shim_watch_tag(const struct uc_probe_key *key, const struct uc_probe_signed *text)
{
	return uc_probe_tag(key, text);
}

__u32 uc_shim_watch_slot(__u64 wall_ns)
{
	return uc_probe_slot(wall_ns);
}

__u16 uc_shim_watch_left(__u64 wall_ns)
{
	return uc_probe_left(wall_ns);
}

__u32 uc_shim_watch_sent_ns(__u16 left, __u32 quickest_ns, __u64 now_ns)
{
	return uc_probe_sent_ns(left, quickest_ns, now_ns);
}

const char *uc_shim_watch_event_label(__u32 event)
{
	static const char *const labels[] = {
#define LABEL(name, label, meaning) label,
		UC_WATCH_EVENTS(LABEL)
#undef LABEL
	};

	return event < UC_WATCH_EVENT_COUNT ? labels[event] : "unknown";
}

const char *uc_shim_watch_event_meaning(__u32 event)
{
	static const char *const meanings[] = {
#define MEANING(name, label, meaning) meaning,
		UC_WATCH_EVENTS(MEANING)
#undef MEANING
	};

	return event < UC_WATCH_EVENT_COUNT ? meanings[event] : "unknown";
}
