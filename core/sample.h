/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a law is told of one segment of a flow: track.h measures it, and laws/law.h passes it on. A
 * new signal for laws is a field here.
 */
#ifndef UC_SAMPLE_H
#define UC_SAMPLE_H

#include <linux/types.h>

/* What a data segment of the guest is. The last two report a loss. */
enum uc_sent {
	UC_SENT_NOTHING, /* no payload and no FIN, or a window probe */
	UC_SENT_NEW,     /* all of it beyond snd_nxt */
	UC_SENT_AGAIN,   /* a retransmission that indicates no new loss */
	UC_SENT_FAST,    /* the first retransmission of a fast recovery */
	UC_SENT_TIMEOUT, /* the guest's retransmission timer fired */
};

struct uc_sample {
	__u64 now_ns; /* when the segment passed */

	/* of a segment of the guest */
	__u32 segments; /* number of segments on the wire */
	__u64 idle_us;  /* how long nothing was in flight before the segment; 0: data was */
	enum uc_sent sent;

	/* of an ACK to the guest */
	__u8 marked;        /* 1: the ACK reports a mark, of new data or not: uc_mark() */
	__u8 duplicate;     /* uc_is_duplicate() */
	__u8 old;           /* 1: its number is outside snd_una … snd_nxt; laws never see such an
			     * ACK */
	__u8 fills;         /* 1: with SACK, much of what the ACK covers was reported before */
	__u32 acked_bytes;  /* newly acknowledged */
	__u32 marked_bytes; /* how many of acked_bytes were marked */
	__u32 rtt_us;       /* round-trip time of the last timed segment that the ACK covers; 0:
			     * none */
};

/* Adds what a marker reports with an ACK: `reports`: 1 if it reports a mark; `bytes`: how many of
 * the acknowledged bytes were marked, without those that another marker has added already. */
static __always_inline void uc_mark(struct uc_sample *sample, __u8 reports, __u32 bytes)
{
	sample->marked |= reports;
	sample->marked_bytes += bytes;
}

#endif
