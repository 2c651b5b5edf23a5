/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Records events of flows as they happen (event.h). The core doesn't know of events: an event is a
 * difference between a flow's small fields now and at its last event.
 *
 * A port's program compares one number, under the flow's lock. If it differs, which is rare, the
 * program tail-calls uc_note_port, which finds the events, records them and finishes the packet. So
 * the port's programs need neither stack nor time for events. If user space has not put
 * uc_note_port into `tail_calls`, nothing is recorded.
 */
#ifndef UC_EVENTS_H
#define UC_EVENTS_H

#include "pending.h"
#include "remotes.h"

/* Rings of events by the flow's place in `flows`. User space sets their number; flows with a
 * higher place have no ring. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_ring);
} events SEC(".maps");

/* Rings of flows that passed, by the port's index in `counts`: no port displaces another's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UC_NUMBER_PAST *UC_PASSED_KEPT);
	__type(key, __u32);
	__type(value, struct uc_passed);
} passed SEC(".maps");

/* Number of events in each ring of `passed` so far; a lost increment is harmless. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UC_NUMBER_PAST);
	__type(key, __u32);
	__type(value, __u32);
} passed_count SEC(".maps");

/* Returns whether a packet with this reason is an event: no known flow goes on, and the reason is
 * not UC_NO_HANDSHAKE. */
static __always_inline __u8 uc_is_news(enum uc_reason reason)
{
	return !uc_goes_on(reason) && reason != UC_NO_HANDSHAKE;
}

/*
 * Returns the ring's entry for the next event. Repeated SYNs, guarded segments and closes that a
 * tenant could repeat at will share one entry.
 */
static __always_inline struct uc_event *uc_next_event(struct uc_ring *ring, __u8 kind)
{
	struct uc_event *last = &ring->events[(ring->count - 1) & (UC_EVENTS_KEPT - 1)];
	__u8 repeats =
		kind == UC_EVENT_SYN_AGAIN || kind == UC_EVENT_GUARDED || kind == UC_EVENT_CLOSED;

	if (ring->count && repeats && last->kind == kind) {
		last->times += last->times < 255;
		return last;
	}
	last = &ring->events[ring->count & (UC_EVENTS_KEPT - 1)];
	ring->count++;
	last->times = 1;
	last->number = ring->count;
	return last;
}

static __always_inline __u32 uc_event_value(const struct uc_facts *facts, __u8 kind)
{
	switch (kind) {
	case UC_EVENT_OPENED:
		return facts->stage;
	case UC_EVENT_SYN_AGAIN:
		return facts->syns;
	case UC_EVENT_AGREED:
		return facts->agreed;
	case UC_EVENT_CUT:
		return facts->signal;
	case UC_EVENT_GUARDED:
		return facts->beyond_bytes;
	case UC_EVENT_CLOSED:
		return facts->closing;
	case UC_EVENT_WITHOUT_ECN:
		return facts->remote;
	default:
		return facts->flight_bytes;
	}
}

/* Writes an event into the ring. Called under the ring's lock. */
static __always_inline void uc_write_event(struct uc_ring *ring, const struct uc_facts *facts,
					   __u8 kind, __u64 now_ns)
{
	struct uc_event *event = uc_next_event(ring, kind);

	event->at_ns = now_ns;
	event->kind = kind;
	event->before_bytes = facts->before_bytes;
	event->after_bytes = facts->after_bytes;
	if (kind == UC_EVENT_BELOW || kind == UC_EVENT_RETURNED) {
		event->before_bytes = facts->receiver_bytes;
		event->after_bytes = facts->given_bytes;
	} else if (kind == UC_EVENT_SHARED) {
		event->after_bytes = facts->share_bytes;
	}
	event->value = uc_event_value(facts, kind);
}

/* Stops looking for events of this flow: uc_note_port isn't loaded, so nothing would record them.
 */
static __always_inline void uc_tell_nobody(const struct uc_pending *now)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &now->place);

	if (!uc_lock_slot(slot, &now->key))
		return;
	slot->seen = UC_SEEN_BY_NOBODY;
	bpf_spin_unlock(&slot->lock);
}

/* Records an event of a flow that passes, or of a segment that strict mode drops. */
static __always_inline void uc_note_passed(const struct uc_pending *now)
{
	__u32 number = uc_number_of(&now->key.ifindex), index;
	__u32 *count = bpf_map_lookup_elem(&passed_count, &number);
	struct uc_passed *entry;

	if (!count)
		return;
	index = number * UC_PASSED_KEPT + (*count)++ % UC_PASSED_KEPT;
	entry = bpf_map_lookup_elem(&passed, &index);
	if (!entry)
		return;
	bpf_spin_lock(&entry->lock);
	entry->key = now->key;
	entry->reason = now->reason;
	entry->at_ns = now->now_ns;
	bpf_spin_unlock(&entry->lock);
}

/*
 * Records the events of the packet in `pending`. Returns 1 if it recorded any. The flow's lock is
 * released before the ring's is taken, so events from two CPUs may be recorded out of order. A
 * global function, for the verifier (see uc_join_group()).
 */
__attribute__((noinline)) int uc_note_news(struct __sk_buff *skb)
{
	struct uc_pending *now = uc_pending_now();
	struct uc_annex *annex;
	struct uc_slot *slot;
	struct uc_ring *ring;
	__u32 annex_place, kinds;

	if (!skb || !now)
		return 0;
	if (uc_is_news(now->reason) && now->reason != UC_BEYOND_EDGE) {
		uc_note_passed(now);
		if (now->facts.remote)
			uc_remember_remote(skb);
		return 1;
	}
	slot = bpf_map_lookup_elem(&flows, &now->place);
	if (!slot)
		return 0;
	annex_place = uc_annex_place(slot, now->place);
	annex = uc_annex_at(annex_place);
	if (!annex || !uc_lock_both(slot, &now->key, now->place, annex_place))
		return 0;
	uc_take_news(slot, annex, &now->segment, now->reason, &now->facts);
	bpf_spin_unlock(&slot->lock);
	if (now->facts.remote)
		uc_remember_remote(skb);
	ring = bpf_map_lookup_elem(&events, &now->place);
	if (!ring)
		return 0;
	bpf_spin_lock(&ring->lock);
	if (now->facts.opens)
		ring->count = 0;
	kinds = now->facts.kinds;
	for (int i = 0; i < 4; i++) {
		__u8 kind = kinds >> 24;

		kinds <<= 8;
		if (kind)
			uc_write_event(ring, &now->facts, kind, now->now_ns);
	}
	bpf_spin_unlock(&ring->lock);
	return 1;
}

#endif
