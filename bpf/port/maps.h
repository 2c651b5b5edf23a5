/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The port programs' maps. All are bounded; user space sets max_entries before it loads the
 * programs.
 */
#ifndef UC_MAPS_H
#define UC_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../core/step.h"
#include "../lookup.h"
#include "layout.h"

/*
 * The flows; each has a place, its index here. Places are searched in turn for stale flows, so idle
 * ones are collected without a timer and without user space. BPF_F_MMAPABLE, because its values
 * begin at a page: slots and buckets then begin at cache lines. (The kernel maps no values with
 * locks into a process.)
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct uc_slot);
} flows SEC(".maps");

/* Hash buckets that give the index in `flows` of a key's flow (index.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * (65536 / UC_BUCKETS_PART));
	__type(key, __u32);
	__type(value, struct uc_bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_secret);
} secrets SEC(".maps");

/* The places that flows have left: where a new flow finds a free one at once, however many others
 * are taken. Each place is here once. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 65536);
	__type(value, __u32);
} vacant SEC(".maps");

/*
 * The peers' SYNs that guests have not answered: a flow is entered when its guest answers. The map
 * forgets the SYN that was used longest ago when it is full, so a flood of SYNs that nobody answers
 * takes no place from a flow.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct uc_key);
	__type(value, struct uc_asking);
} asked SEC(".maps");

/*
 * Flows that the table does not have and whose data came marked: unanswered.h. The map forgets the
 * one that was used longest ago when it is full; its next mark passes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct uc_key);
	__type(value, struct uc_marked);
} marked SEC(".maps");

/* Rings of the half-open flows of each port, the oldest displaced first (table.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct uc_turn);
} turns SEC(".maps");

/* The ports that have a plan, by ifindex. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UC_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct uc_port_state);
} ports SEC(".maps");

/* What the two hooks of a port have seen, by the port's index (uc_port_state.number). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UC_NUMBER_PAST + 1);
	__type(key, __u32);
	__type(value, struct uc_hooks);
} hooks SEC(".maps");

/* Number of packets by direction and reason; the map's index is the port's counter index. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UC_NUMBER_PAST + 1);
	__type(key, __u32);
	__type(value, struct uc_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_cursor);
} cursors SEC(".maps");

/* Scratch memory for a slot before it is entered, and for a peer's stored SYN: they are too large
 * for the stack. */
struct uc_scratch {
	__u64 words[(sizeof(struct uc_slot) + 7) / 8];
	struct uc_annex annex;
	struct uc_asked peers;
	__u8 had_asked; /* peers.stored before uc_step_unknown() */
	/* takes no room: clang gives BTF of what only a map of maps holds (rules.h) nowhere else */
	struct uc_page_key page_keys[0];
	struct uc_page pages[0];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uc_scratch);
} scratch SEC(".maps");

/* Returns this CPU's scratch slot and annex, zeroed; NULL only for the verifier. */
static __always_inline struct uc_scratch *uc_scratch_now(void)
{
	struct uc_scratch *fresh = uc_only_entry(&scratch);

	if (fresh)
		__builtin_memset(fresh, 0, sizeof(*fresh));
	return fresh;
}

/* Returns the port's counter index; UC_NUMBER_NONE without a plan. */
static __always_inline __u32 uc_number_of(const __u32 *ifindex)
{
	struct uc_port_state *state = bpf_map_lookup_elem(&ports, ifindex);

	return state ? state->number : UC_NUMBER_NONE;
}

/* Eight bytes of a key, which is aligned to them. */
typedef __u64 __attribute__((may_alias)) uc_long;

static __always_inline int uc_is_same_key(const struct uc_key *a, const struct uc_key *b)
{
	const uc_long *one = (const uc_long *)a, *other = (const uc_long *)b;
	__u64 differs = 0;

	for (unsigned int i = 0; i < sizeof(*a) / sizeof(*one); i++)
		differs |= one[i] ^ other[i];
	return !(differs | (a->vlan ^ b->vlan));
}

/* Returns the place of a flow's annex; without one, the flow's own. */
static __always_inline __u32 uc_annex_place(const struct uc_slot *slot, __u32 place)
{
	return slot->bits & UC_SLOT_ANNEXED ? slot->flow.annex_at : place;
}

/* Returns the annex at a place; NULL if there is no such place. For a flow without an annex that is
 * its own place: the result is the flow's own memory, which the core does not use as an annex. */
static __always_inline struct uc_annex *uc_annex_at(__u32 place)
{
	struct uc_slot *slot = bpf_map_lookup_elem(&flows, &place);

	if (!slot)
		return NULL;
	/* keeps the compiler from adding the offset before it has compared */
	asm volatile("" : "+r"(slot));
	return (struct uc_annex *)&slot->flow;
}

/* Locks the slot of the flow with this key. Returns 0, with nothing locked, if the slot is NULL, or
 * if the flow was removed since its place was found and the place perhaps taken by another. */
static __always_inline int uc_lock_slot(struct uc_slot *slot, const struct uc_key *key)
{
	if (!slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	if (uc_is_same_key(&slot->key, key))
		return 1;
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/* Locks the slot at `place`, and with it the flow's annex, which the caller has found at
 * `annex_place`. Returns 0, with nothing locked, if the place has another flow or the flow another
 * annex by now, or if it is not listed yet. */
static __always_inline int uc_lock_both(struct uc_slot *slot, const struct uc_key *key, __u32 place,
					__u32 annex_place)
{
	bpf_spin_lock(&slot->lock);
	if (slot->bits & UC_SLOT_LISTED && uc_is_same_key(&slot->key, key) &&
	    uc_annex_place(slot, place) == annex_place)
		return 1;
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/* Returns what the hooks of the port with this index have seen; NULL without a plan. */
static __always_inline struct uc_hooks *uc_hooks_of(__u32 number)
{
	return number == UC_NUMBER_NONE ? NULL : bpf_map_lookup_elem(&hooks, &number);
}

/*
 * Records that the hook of a segment has seen it. Returns whether the other hook is blind. `index`:
 * the port's counter index (uc_number_of()). A global function, so that the verifier checks it once
 * and not for each state of a caller; hence no pointer but the context, which it doesn't use.
 */
__attribute__((noinline)) int uc_ask_hooks(struct __sk_buff *skb, __u32 index, __u32 to_guest,
					   __u32 flags, __u64 now_ns)
{
	struct uc_segment segment = {.direction = to_guest ? UC_TO_GUEST : UC_FROM_GUEST,
				     .flags = flags};
	struct uc_hooks *seen = uc_hooks_of(index);

	if (!skb || !seen)
		return 0;
	uc_hook_saw(seen, &segment, now_ns);
	return uc_is_blind(seen, to_guest ? UC_FROM_GUEST : UC_TO_GUEST);
}

/* Records an answer that the hook to the guest has missed. */
static __always_inline void uc_note_missed(__u32 index, __u64 now_ns)
{
	struct uc_hooks *seen = uc_hooks_of(index);

	if (seen)
		uc_hook_missed(seen, now_ns);
}

/* Records a packet to the guest that the port can't read. */
static __always_inline void uc_note_unread(__u32 index, __u64 now_ns)
{
	struct uc_hooks *seen = uc_hooks_of(index);

	if (seen)
		uc_hook_unread(seen, now_ns);
}

/* Counts a packet by its direction and reason. */
static __always_inline void uc_count(__u32 number, __u8 direction, enum uc_reason reason)
{
	struct uc_counts *of_port = bpf_map_lookup_elem(&counts, &number);

	if (of_port && reason < UC_REASON_COUNT)
		of_port->packets[direction == UC_TO_GUEST][reason]++;
}

#endif
