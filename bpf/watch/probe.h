/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The probe: a packet of a flow that does not exist yet, sent from host to host ahead of the flow's
 * handshake to see how full the path's queues are (HWatch §4.3, "Probe1").
 *
 * 26 bytes behind the IP header, the same for both families:
 *
 *    0       2       4       6   7   8            12  13  14     16              24    26
 *    | source| dest. | magic |ver|idx| connection |cnt| 0 | slot | tag           | left|
 *
 * With IPv4 that is the whole of the minimum Ethernet frame: 14 + 20 + 26 + 4 (FCS) = 64 bytes.
 * With IPv6 the frame has 14 + 40 + 26 + 4 = 84. The paper's 38 bytes hold the link's header and
 * IPv4's and have no room for ports or for a tag.
 *
 * The ports stand where TCP has them, and the addresses are the flow's, so switches that hash
 * whatever is there choose the path of the flow. The protocol is 253, reserved for experiments (RFC
 * 3692, RFC 4727); any other packet of that protocol lacks the magic number, and passes.
 *
 * Nobody but the hosts, which share a key, can make one: the tag is SipHash-2-4 (Aumasson and
 * Bernstein, 2012) over the addresses, all that stands around the tag and the whole number of the
 * time slot. A replay is out of date after some slots, and known by its index before that.
 */
#ifndef UC_PROBE_H
#define UC_PROBE_H

#include <linux/stddef.h>
#include <linux/types.h>

#include "../../core/watch/policy.h"

#define UC_PROBE_PROTOCOL 253
#define UC_PROBE_MAGIC    0x7563
#define UC_PROBE_VERSION  1
/* Bytes before the tag. */
#define UC_PROBE_SIGNED_BYTES 16
#define UC_PROBE_BYTES        26

struct uc_probe {
	__be16 source_port;
	__be16 destination_port;
	__be16 magic;
	__u8 version;
	__u8 index;        /* from 0 to count - 1, and count is at most UC_WATCH_PROBES_MAX */
	__be32 connection; /* the sequence number of the connection's SYN */
	__u8 count;        /* number of this connection's probes */
	__u8 reserved;     /* 0 */
	__be16 slot;       /* the low bits of the time slot's number */
	__u8 tag[8];
	__be16 left; /* when the probe left, by a clock that all probes of the flow share:
		      * uc_probe_left() */
} __attribute__((packed));

_Static_assert(sizeof(struct uc_probe) == UC_PROBE_BYTES, "26 bytes fill the minimum frame");
_Static_assert(__builtin_offsetof(struct uc_probe, tag) == UC_PROBE_SIGNED_BYTES,
	       "what stands before the tag is signed in one piece");

/* The hosts' shared secret. */
struct uc_probe_key {
	__u64 k0;
	__u64 k1;
};

/* The text over which the tag is computed. */
struct uc_probe_signed {
	__u8 source[16]; /* IPv4 as ::ffff:a.b.c.d */
	__u8 destination[16];
	__u8 probe[UC_PROBE_SIGNED_BYTES];
	__u8 slot[4]; /* the whole number, the lowest byte first */
	__be16 left;
	__u8 zero[2];
};

/* Slots of 2^30 ns, about a second, of the hosts' wall clocks. */
#define UC_PROBE_SLOT_SHIFT 30
/* Maximum difference between a probe's slot and that of its arrival: clocks of hosts differ, and a
 * probe travels. */
#define UC_PROBE_SLOTS_LATE 2

static __always_inline __u32 uc_probe_slot(__u64 wall_ns)
{
	return wall_ns >> UC_PROBE_SLOT_SHIFT;
}

/* Returns the number of the time slot nearest to `now` whose low bits are `low`. */
static __always_inline __u32 uc_probe_whole_slot(__u16 low, __u32 now)
{
	return now + (__s16)(low - (__u16)now);
}

static __always_inline __u8 uc_probe_is_late(__u32 slot, __u32 now)
{
	__s32 age = now - slot;

	return age > UC_PROBE_SLOTS_LATE || age < -UC_PROBE_SLOTS_LATE;
}

static __always_inline void uc_probe_set_slot(struct uc_probe_signed *text, __u32 slot)
{
	for (int i = 0; i < 4; i++)
		text->slot[i] = slot >> 8 * i;
}

/*
 * When a probe left (§3.4), in units of 2^10 ns, about a microsecond: user space, which sends it,
 * is no more exact. 16 bits come round after 67 ms. So two probes' ways can be told apart by up to
 * half of that, and no flow's probes are spread over more.
 */
#define UC_PROBE_LEFT_SHIFT 10

static __always_inline __u16 uc_probe_left(__u64 wall_ns)
{
	return wall_ns >> UC_PROBE_LEFT_SHIFT;
}

/* Returns when a probe left, by this host's clock plus a constant for the flow's probes. Of the
 * times with the low bits `left` it is the one by which the probe's transit is closest to that of
 * the quickest probe. */
static __always_inline __u32 uc_probe_sent_ns(__u16 left, __u32 quickest_ns, __u64 now_ns)
{
	__u16 transit = (__u16)(now_ns >> UC_PROBE_LEFT_SHIFT) - left;
	__s16 later = transit - (__u16)(quickest_ns >> UC_PROBE_LEFT_SHIFT);

	return (__u32)now_ns - quickest_ns - ((__u32)later << UC_PROBE_LEFT_SHIFT);
}

static __always_inline __u64 uc_rotated(__u64 word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void uc_sip_round(__u64 v[4])
{
	v[0] += v[1];
	v[1] = uc_rotated(v[1], 13) ^ v[0];
	v[0] = uc_rotated(v[0], 32);
	v[2] += v[3];
	v[3] = uc_rotated(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = uc_rotated(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = uc_rotated(v[1], 17) ^ v[2];
	v[2] = uc_rotated(v[2], 32);
}

static __always_inline void uc_sip_word(__u64 v[4], __u64 word)
{
	v[3] ^= word;
	uc_sip_round(v);
	uc_sip_round(v);
	v[0] ^= word;
}

/* Returns eight bytes as SipHash reads them: the first is the lowest. */
static __always_inline __u64 uc_sip_load(const __u8 *bytes)
{
	__u64 word = 0;

	for (int i = 7; i >= 0; i--)
		word = word << 8 | bytes[i];
	return word;
}

#define UC_SIP_WORDS (sizeof(struct uc_probe_signed) / 8)

/* Returns the tag of a probe: SipHash-2-4 of its text. */
static __always_inline __u64 uc_probe_tag(const struct uc_probe_key *key,
					  const struct uc_probe_signed *text)
{
	const __u8 *bytes = (const __u8 *)text;
	__u64 v[4] = {
		key->k0 ^ 0x736f6d6570736575ULL,
		key->k1 ^ 0x646f72616e646f6dULL,
		key->k0 ^ 0x6c7967656e657261ULL,
		key->k1 ^ 0x7465646279746573ULL,
	};

	for (unsigned int i = 0; i < UC_SIP_WORDS; i++)
		uc_sip_word(v, uc_sip_load(bytes + 8 * i));
	/* the last word: no bytes are left, and the length in the highest */
	uc_sip_word(v, (__u64)sizeof(*text) << 56);
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		uc_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
