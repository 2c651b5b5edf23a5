/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Time since a moment. A platform reads its clock when a packet arrives and takes the lock later,
 * so the CPU that gets the lock second may have the earlier reading. Then the time since is 0; the
 * plain difference would be about 585 years.
 *
 * A flow stores two moments in 32 bits, in ticks of a power of two of nanoseconds, since dividing
 * costs a packet more than shifting. A tick up to one second in the future counts as now, so a
 * pause of nearly a whole wrap counts as none.
 */
#ifndef UC_SINCE_H
#define UC_SINCE_H

#include <linux/stddef.h>
#include <linux/types.h>

static __always_inline __u64 uc_since_ns(__u64 now_ns, __u64 then_ns)
{
	return now_ns < then_ns ? 0 : now_ns - then_ns;
}

/* Shift from ns to ticks of 64 ns, which wrap after 4 min 35 s: for round-trip times. */
#define UC_RTT_TICK_SHIFT 6
/* Shift from ns to ticks of 1,024 ns, which wrap after 73 min: for times in which a guest sends
 * nothing. */
#define UC_IDLE_TICK_SHIFT 10

/* Returns the tick of a moment, never 0. */
static __always_inline __u32 uc_tick(__u64 now_ns, __u8 shift)
{
	__u32 tick = (__u32)(now_ns >> shift);

	return tick + !tick;
}

/* Returns the nanoseconds since a tick. */
static __always_inline __u64 uc_since_tick_ns(__u64 now_ns, __u32 tick, __u8 shift)
{
	__u32 ticks = (__u32)(now_ns >> shift) - tick;

	return -ticks < 1000000000U >> shift ? 0 : (__u64)ticks << shift;
}

#endif
