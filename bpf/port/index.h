/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds the index in the map `flows` of the flow with a key; comments call this index the flow's
 * place.
 *
 * `buckets` has two halves. A key has a bucket in each, which the two halves of its hash select,
 * and its entry is in one of them: in the emptier one when it was entered, and it never moves (Azar
 * and others, "Balanced Allocations"). An entry is one 64-bit word, a tag and a place, so that no
 * reader sees half of one, and readers take no lock. Whether the flow at that place is the key's
 * own, the slot decides: its key is compared under its lock.
 *
 * If both buckets are full, the flow passes as TABLE_FULL. With UC_BUCKETS_PART places for each
 * pair of buckets they have 4 entries of 7 on average in a full table. Then 1 of 700,000 new flows
 * finds both full, if each takes the place of a random older one (simulated, 33 million flows of
 * 65,536 places); while places are taken for the first time, none of 5 million did.
 *
 * Can a tenant, who chooses addresses and ports, fill a pair on purpose? The hash is NH (RFC 4418
 * §5.2.2) over the key with twelve random words, which user space draws when it makes the maps and
 * which no packet carries; a bijection then spreads each bit of that sum over all 64. Two
 * keys have equal sums, and so equal hashes, with a probability of 2^-32 at most, whichever they
 * are. For keys that share only their buckets there is no such proof; we know no choice of keys
 * that is better than a random one without the words. What a tenant can observe is whether a new
 * flow passes. By closing its own flows one by one and trying again it can find out which of them
 * share the two buckets; of other ports' flows it learns only that they have the rest.
 */
#ifndef UC_INDEX_H
#define UC_INDEX_H

#include "maps.h"

/* Returns the hash of a key by a secret. */
static __always_inline __u64 uc_hash_by(const struct uc_secret *secret, const struct uc_key *key)
{
	const __u32 *word = (const __u32 *)key;
	__u64 sum = 0;

	for (unsigned int i = 0; i < UC_KEY_WORDS; i += 2) {
		__u32 even = word[i] + secret->words[i];
		__u32 odd = (i + 1 < UC_KEY_WORDS ? word[i + 1] : 0) + secret->words[i + 1];

		sum += (__u64)even * odd;
	}
	/* the last step of MurmurHash3, of 64 bits */
	sum = (sum ^ sum >> 33) * 0xff51afd7ed558ccdULL;
	sum = (sum ^ sum >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return sum ^ sum >> 33;
}

/* Returns the hash of a key by the host's secret. */
static __always_inline __u64 uc_hash_of(const struct uc_key *key)
{
	const struct uc_secret *secret = uc_only_entry(&secrets);

	return secret ? uc_hash_by(secret, key) : 0;
}

/* Returns what an entry stores of a hash, odd and so never 0. Both halves are in it, since one of
 * them has selected the bucket. */
static __always_inline __u32 uc_tag(__u64 hash)
{
	return (hash ^ hash >> 32) | 1;
}

/* Returns the entry of a flow: its tag, and its place plus 1. */
static __always_inline __u64 uc_entry_of(__u64 hash, __u32 place)
{
	return (__u64)uc_tag(hash) << 32 | (place + 1);
}

/* An entry that is taken, but not written yet. No written entry equals it, since no tag is 0. */
#define UC_RESERVED 1ULL

/* Returns a bucket of a hash, in the first half or the second; NULL only for the verifier. */
static __always_inline struct uc_bucket *uc_bucket_of(__u64 hash, __u32 second)
{
	const struct uc_secret *secret = uc_only_entry(&secrets);
	__u32 index;

	if (!secret)
		return NULL;
	index = (second ? hash >> 32 : hash & 0xffffffff) * secret->pairs >> 32;
	if (second)
		index += secret->pairs;
	return bpf_map_lookup_elem(&buckets, &index);
}

static __always_inline __u64 uc_read_entry(const struct uc_bucket *bucket, __u32 at)
{
	return *(const volatile __u64 *)&bucket->entries[at];
}

static __always_inline void uc_write_entry(struct uc_bucket *bucket, __u64 at, __u64 entry)
{
	/* the verifier must see the bound of the very register that is the index */
	asm volatile("" : "+r"(at));
	if (at < UC_BUCKET_ENTRIES)
		*(volatile __u64 *)&bucket->entries[at] = entry;
}

/* Returns the last entry of a bucket with this tag; 0: none. Without branches: the entry may be any
 * of them, which a processor can't predict. */
static __always_inline __u64 uc_entry_with(const struct uc_bucket *bucket, __u32 tag)
{
	__u64 found = 0;

	for (int i = 0; i < UC_BUCKET_ENTRIES; i++) {
		__u64 entry = uc_read_entry(bucket, i), differs = entry >> 32 ^ tag;

		/* keeps the compiler from seeing a comparison here */
		asm volatile("" : "+r"(differs));
		/* all bits of the shifted number are 1 if nothing differs, otherwise 0 */
		found ^= (found ^ entry) & (__u64)((__s64)(differs - 1) >> 63);
	}
	return found;
}

/* Returns whether the flow at an entry's place has this key, read without a lock. */
static __always_inline int uc_is_at(const struct uc_key *key, __u64 entry)
{
	__u32 place = (__u32)entry - 1;
	const struct uc_slot *slot = bpf_map_lookup_elem(&flows, &place);

	return slot && uc_is_same_key(&slot->key, key);
}

/* Returns the place where the flow with this key is, if it is known; otherwise UC_NO_PLACE or,
 * rarely, another's place. */
static __always_inline __u32 uc_place_of(const struct uc_key *key, __u64 hash)
{
	const struct uc_bucket *first = uc_bucket_of(hash, 0), *second = uc_bucket_of(hash, 1);
	__u64 one, other;
	__u32 place;

	if (!first || !second)
		return UC_NO_PLACE;
	one = uc_entry_with(first, uc_tag(hash));
	other = uc_entry_with(second, uc_tag(hash));
	/* two keys with one tag */
	if (one && other && !uc_is_at(key, one))
		one = 0;
	place = (__u32)(one ? one : other) - 1;
	uc_merge(place, hash);
	return place;
}

/* Returns 1 if an entry is taken, 0 if it is free. Without a branch: each would double the paths
 * that the verifier follows. */
static __always_inline __u64 uc_is_taken(__u64 entry)
{
	__u64 negative = -entry;

	/* keeps the compiler from seeing a comparison here */
	asm volatile("" : "+r"(negative));
	return (entry | negative) >> 63;
}

/* Returns the index of a bucket's last free entry; UC_BUCKET_ENTRIES: it is full. */
static __always_inline __u32 uc_free_entry(const struct uc_bucket *bucket)
{
	__u64 found = UC_BUCKET_ENTRIES;

	for (int i = 0; i < UC_BUCKET_ENTRIES; i++)
		found ^= (found ^ i) & (uc_is_taken(uc_read_entry(bucket, i)) - 1);
	return found;
}

/* Returns how many entries of a bucket are taken. */
static __always_inline __u32 uc_taken_entries(const struct uc_bucket *bucket)
{
	__u64 count = 0;

	for (int i = 0; i < UC_BUCKET_ENTRIES; i++)
		count += uc_is_taken(uc_read_entry(bucket, i));
	return count;
}

/* Takes an entry of a bucket, before it is written. Returns its index; UC_BUCKET_ENTRIES: none. */
static __always_inline __u32 uc_reserve(struct uc_bucket *bucket)
{
	__u32 at;

	bpf_spin_lock(&bucket->lock);
	at = uc_free_entry(bucket);
	if (at < UC_BUCKET_ENTRIES)
		uc_write_entry(bucket, at, UC_RESERVED);
	bpf_spin_unlock(&bucket->lock);
	return at;
}

/*
 * Enters a place for a hash. Returns 0 if there is no room, or if there is an entry with its tag:
 * then another CPU has just opened the same flow or, rarely, another key has the same tag, and this
 * flow passes.
 *
 * A CPU holds one lock at a time. All CPUs that enter the same hash hold the lock of its first
 * bucket, search both buckets for the tag, and write the entry. An entry of the second bucket is
 * reserved before, under that bucket's lock: from then on only the CPU that reserved it writes it.
 *
 * A global function, for the verifier (see uc_join_group()).
 */
__attribute__((noinline)) int uc_list(struct __sk_buff *skb, __u64 hash, __u32 place)
{
	struct uc_bucket *first = uc_bucket_of(hash, 0), *second = uc_bucket_of(hash, 1);
	__u32 reserved = UC_BUCKET_ENTRIES, at = UC_BUCKET_ENTRIES;
	__u64 entry = uc_entry_of(hash, place);
	int listed = 0;

	if (!skb || !first || !second)
		return 0;
	if (uc_taken_entries(second) < uc_taken_entries(first))
		reserved = uc_reserve(second);
	bpf_spin_lock(&first->lock);
	if (!(uc_entry_with(first, uc_tag(hash)) | uc_entry_with(second, uc_tag(hash)))) {
		at = uc_free_entry(first);
		if (reserved < UC_BUCKET_ENTRIES)
			uc_write_entry(second, reserved, entry);
		else if (at < UC_BUCKET_ENTRIES)
			uc_write_entry(first, at, entry);
		listed = reserved < UC_BUCKET_ENTRIES || at < UC_BUCKET_ENTRIES;
	}
	bpf_spin_unlock(&first->lock);
	if (!listed && reserved < UC_BUCKET_ENTRIES)
		uc_write_entry(second, reserved, 0);
	return listed;
}

/* Removes the entry of a flow that this CPU has removed, so nobody else writes to it. A global
 * function, for the verifier. */
__attribute__((noinline)) int uc_unlist(struct __sk_buff *skb, __u64 hash, __u32 place)
{
	struct uc_bucket *first = uc_bucket_of(hash, 0), *second = uc_bucket_of(hash, 1);
	__u64 entry = uc_entry_of(hash, place);

	if (!skb || !first || !second)
		return 0;
	for (int i = 0; i < UC_BUCKET_ENTRIES; i++) {
		if (uc_read_entry(first, i) == entry)
			uc_write_entry(first, i, 0);
		if (uc_read_entry(second, i) == entry)
			uc_write_entry(second, i, 0);
	}
	return 1;
}

#endif
