/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Probes that arrive at the port of the receiving guest: they are checked, counted and dropped, so
 * the guest never sees one. An invalid probe only increments a counter.
 */
#ifndef UC_WATCH_ARRIVE_H
#define UC_WATCH_ARRIVE_H

#include <stddef.h>
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../packet.h"
#include "start.h"

/* Returns whether a probe's tag was made with this host's key, or with the other one that it
 * accepts. */
static __always_inline __u8 uc_probe_is_authentic(const struct uc_probe *probe,
						  const struct uc_probe_signed *text,
						  const struct uc_watch_control *say)
{
	__u64 tag = uc_sip_load(probe->tag);

	if (uc_probe_tag(&say->key, text) == tag)
		return 1;
	return (say->also.k0 | say->also.k1) && uc_probe_tag(&say->also, text) == tag;
}

/* Checks a probe's version, numbers, time and tag. Returns UC_WATCH_PROBE, or what is wrong with
 * it. */
static __always_inline enum uc_watch_event uc_probe_check(const struct uc_probe *probe,
							  struct uc_probe_signed *text,
							  const struct uc_watch_control *say,
							  __u64 now_ns)
{
	__u32 now = uc_probe_slot(now_ns + say->wall_offset_ns);
	__u32 slot = uc_probe_whole_slot(bpf_ntohs(probe->slot), now);

	if (probe->version != UC_PROBE_VERSION || probe->reserved || !probe->count ||
	    probe->count > UC_WATCH_PROBES_MAX || probe->index >= probe->count)
		return UC_WATCH_UNKNOWN;
	if (uc_probe_is_late(slot, now))
		return UC_WATCH_LATE;
	__builtin_memcpy(text->probe, probe, UC_PROBE_SIGNED_BYTES);
	uc_probe_set_slot(text, slot);
	text->left = probe->left;
	if (!uc_probe_is_authentic(probe, text, say))
		return UC_WATCH_FORGED;
	return UC_WATCH_PROBE;
}

/* Counts an authentic probe; only such probes get an entry in the table. Returns the event to
 * count. */
static __always_inline enum uc_watch_event uc_probe_count(const struct uc_key *key,
							  const struct uc_watch_port *port,
							  const struct uc_probe *probe, __u8 ecn,
							  __u64 now_ns)
{
	__u32 bit = 1U << (probe->index & (UC_WATCH_PROBES_MAX - 1));
	struct uc_watch_slot *slot = uc_start_for(key);
	enum uc_watch_event event = UC_WATCH_PROBE;
	__u32 tag = uc_tag_of(key), sent_ns;
	__u8 counts, other;

	if (!uc_lock_start(slot, tag))
		return UC_WATCH_TABLE_FULL;
	other = slot->connection != bpf_ntohl(probe->connection);
	if (other && uc_start_is_free(slot)) {
		uc_start_anew(slot, bpf_ntohl(probe->connection));
		other = 0;
	}
	if (!other)
		slot->seen_ns = now_ns;
	if (other || slot->flow.seen & bit) {
		bpf_spin_unlock(&slot->lock);
		return UC_WATCH_REPLAYED;
	}
	sent_ns = uc_probe_sent_ns(bpf_ntohs(probe->left), slot->flow.transit_ns, now_ns);
	counts = uc_watch_timed(&slot->flow, &port->policy, ecn, sent_ns, now_ns);
	if (!uc_watch_probe(&slot->flow, probe->index, probe->count, counts))
		event = UC_WATCH_UNKNOWN;
	else if (ecn == UC_CE)
		event = UC_WATCH_PROBE_CE;
	else if (counts == UC_CE)
		event = UC_WATCH_PROBE_SLOW;
	bpf_spin_unlock(&slot->lock);
	return event;
}

/* Handles a packet to the guest that may be a probe. Returns UC_WATCH_NOTHING if it is none and
 * passes; otherwise the event to count, and the packet must be dropped. */
static __always_inline enum uc_watch_event uc_probe_arrives(struct __sk_buff *skb,
							    const struct uc_watch_port *port,
							    const struct uc_watch_control *say,
							    __u64 now_ns)
{
	struct uc_key key = {.ifindex = skb->ifindex};
	struct uc_probe_signed text = {};
	struct uc_probe probe = {};
	struct uc_frame frame = {};
	struct uc_parsed parsed = {};
	enum uc_watch_event event;
	__be16 magic;

	if (uc_parse_ip(skb, UC_PROBE_PROTOCOL, &frame, &parsed, text.source, text.destination) !=
		    UC_TRANSLATED ||
	    uc_is_tagged(skb, &frame) || parsed.end < frame.tcp ||
	    bpf_skb_load_bytes(skb, frame.tcp + offsetof(struct uc_probe, magic), &magic, 2) ||
	    magic != bpf_htons(UC_PROBE_MAGIC))
		return UC_WATCH_NOTHING;
	if (parsed.end - frame.tcp != UC_PROBE_BYTES ||
	    bpf_skb_load_bytes(skb, frame.tcp, &probe, sizeof(probe)))
		return UC_WATCH_TRUNCATED;
	event = uc_probe_check(&probe, &text, say, now_ns);
	if (event != UC_WATCH_PROBE)
		return event;
	/* a network that clears ECT can't mark: the probe counts as lost */
	if (frame.ecn == UC_NOT_ECT)
		return UC_WATCH_UNKNOWN;
	__builtin_memcpy(key.guest, text.destination, 16);
	__builtin_memcpy(key.remote, text.source, 16);
	key.guest_port = probe.destination_port;
	key.remote_port = probe.source_port;
	return uc_probe_count(&key, port, &probe, frame.ecn, now_ns);
}

#endif
