/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ctrlTCP's interface (Islam and others, §III): what a connection reports to its coupled congestion
 * controller (CCC), and the answers:
 *
 *   register(c, p, cwnd, ssthresh)        -> cwnd, ssthresh, state    when it begins
 *   update(c, cwnd, ssthresh, state)      -> cwnd, ssthresh, state    when its own law has computed
 *   ask(c)                                -> cwnd, ssthresh, state    between two reports; optional
 *   leave(c)                                                          when it ends
 *
 * A report has fields that the draft lacks, by which the CCC recognizes idle flows, further losses
 * of one loss event, and paths of different length. A report is the output of an unchanged
 * congestion control: the CCC overrules it, but doesn't replace it. Windows are bytes. A platform
 * whose TCP counts segments stores what its window can't express and adds it to the cwnd that it
 * reports next.
 */
#ifndef UC_COUPLING_INTERFACE_H
#define UC_COUPLING_INTERFACE_H

#include "../mss.h"

enum uc_ccc_state {
	UC_CCC_SLOW_START,
	UC_CCC_AVOIDANCE,
	UC_CCC_RECOVERY, /* fast recovery, or the reduced state after a mark (Linux: CWR) */
	UC_CCC_LOSS,     /* after a retransmission timeout, until what it lost is acknowledged */
	UC_CCC_BACKOFF,  /* LOSS, and the timer has fired since the last report (RFC 6298 §5.5):
			  * never an answer */
};

#define UC_CCC_INFINITE_SSTHRESH 0x7fffffffU

struct uc_ccc_report {
	__u32 cwnd_bytes; /* as the connection's own law has set it */
	__u32 ssthresh_bytes;
	__u32 flight_bytes; /* in flight now */
	__u32 used_bytes;   /* the most in flight during the last round trip */
	__u32 acked_bytes;  /* acknowledged since the last report */
	__u32 srtt_us;      /* ×8 (RFC 6298's as TCPs keep it); 0: not measured yet */
	__u32 lost_age_us;  /* on entering RECOVERY or LOSS, and in BACKOFF: how long ago the lost
			     * segment was sent;
			     * 0:  not known, a round trip and a quarter are taken */
	__u16 mss_bytes;
	__u8 state;   /* enum uc_ccc_state */
	__u8 limited; /* 1: the application limits the flow, not the window */
	__u8 again;   /* 1: still in RECOVERY, but another mark arrived, and the flow's law reduces
		       * its window from cwnd to ssthresh once more */
	__u8 pad[3];
};

struct uc_ccc_answer {
	__u32 cwnd_bytes;
	__u32 ssthresh_bytes;
	__u8 state;
};

/* Maximum values that are accepted from a report. */
#define UC_CCC_WINDOW_MAX_BYTES (1U << 30)
#define UC_CCC_SRTT_MAX_US      (1U << 23) /* ×8: about a second */

/* Returns the report with each number limited to what a TCP can have. */
static __always_inline struct uc_ccc_report uc_ccc_believe(const struct uc_ccc_report *said)
{
	struct uc_ccc_report report = *said;

	report.mss_bytes = uc_max64(report.mss_bytes, UC_MSS_MIN_BYTES);
	report.cwnd_bytes = uc_min64(report.cwnd_bytes, UC_CCC_WINDOW_MAX_BYTES);
	report.cwnd_bytes = uc_max64(report.cwnd_bytes, report.mss_bytes);
	report.ssthresh_bytes = uc_min64(report.ssthresh_bytes, UC_CCC_INFINITE_SSTHRESH);
	report.flight_bytes = uc_min64(report.flight_bytes, UC_CCC_WINDOW_MAX_BYTES);
	report.used_bytes = uc_min64(report.used_bytes, UC_CCC_WINDOW_MAX_BYTES);
	report.used_bytes = uc_max64(report.used_bytes, report.flight_bytes);
	report.acked_bytes = uc_min64(report.acked_bytes, UC_CCC_WINDOW_MAX_BYTES);
	report.srtt_us = uc_min64(report.srtt_us, UC_CCC_SRTT_MAX_US);
	if (report.state > UC_CCC_BACKOFF)
		report.state = UC_CCC_AVOIDANCE;
	return report;
}

/*
 * Returns how many bits of a remote address identify its group, 0 to 128. `mapped`: the address is
 * IPv4, as ::ffff:a.b.c.d. If both prefixes are 0, all remote hosts are one group.
 */
static __always_inline __s32 uc_ccc_prefix_bits(__u8 mapped, __u8 prefix4, __u8 prefix6)
{
	if (!mapped)
		return prefix6;
	return prefix4 | prefix6 ? 96 + prefix4 : 0;
}

/* Returns the answer to an uncoupled connection: its own numbers. */
static __always_inline struct uc_ccc_answer uc_ccc_uncoupled(const struct uc_ccc_report *report)
{
	struct uc_ccc_answer answer = {
		.cwnd_bytes = report->cwnd_bytes,
		.ssthresh_bytes = report->ssthresh_bytes,
		.state = uc_min64(report->state, UC_CCC_LOSS),
	};

	return answer;
}

#endif
