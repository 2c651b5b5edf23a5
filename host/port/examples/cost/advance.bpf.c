/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Lets the packet of a measurement advance: a run of a program repeats one packet, but a flow whose
 * packet is repeated does not advance, and one flow stays in the cache. This program writes the
 * number of the next flow into the peer's address, and the number of the next segment into SEQ or
 * ACK. It also restores the headers, which the run before has edited. Then it calls the program
 * that is measured. Checksums are not corrected: the programs only update them.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Headers over IPv4 and over IPv6, without options. */
#define HEADERS     54
#define HEADERS_MAX 74

struct walk {
	__u64 runs;       /* so far */
	__u32 flows;      /* a power of two; packets visit all flows once, in mixed order */
	__u32 flow_shift; /* its logarithm */
	__u32 address_at; /* where the last four bytes of the peer's address lie in the frame */
	__u32 address;    /* of the first flow */
	__u32 number_at;  /* where SEQ or ACK lies; 0: is not written */
	__u32 number;     /* in the first packet of each flow */
	__u32 step_bytes; /* added in each further packet of the flow */
	__u32 target;     /* index in `targets` */
	__u8 headers[HEADERS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk);
} walks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

static __always_inline void put(struct __sk_buff *skb, __u32 at, __u32 value)
{
	void *to = (void *)(long)skb->data + (at & 0x7f);

	if (to + sizeof(value) <= (void *)(long)skb->data_end)
		*(__be32 *)to = bpf_htonl(value);
}

static __always_inline void restore(struct __sk_buff *skb, const struct walk *walk)
{
	void *to = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (to + HEADERS_MAX <= end)
			__builtin_memcpy(to, walk->headers, HEADERS_MAX);
	} else if (to + HEADERS <= end) {
		__builtin_memcpy(to, walk->headers, HEADERS);
	}
}

SEC("tc")
int advance(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
	__u32 flow, packet;

	if (!walk)
		return TC_ACT_SHOT;
	/* an odd factor permutes the numbers below a power of two */
	flow = (__u32)walk->runs * 0x9e3779b1U & (walk->flows - 1);
	packet = walk->runs >> (walk->flow_shift & 63);
	walk->runs++;
	restore(skb, walk);
	put(skb, walk->address_at, walk->address + flow);
	if (walk->number_at)
		put(skb, walk->number_at, walk->number + packet * walk->step_bytes);
	bpf_tail_call(skb, &targets, walk->target);
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
