/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How long ago. A home reads its clock when a packet comes and takes the lock later, so of two CPUs
 * the second may say a moment that lies before what the first has written down. Then nothing has
 * passed; the plain difference would be five hundred years.
 */
#ifndef UC_SINCE_H
#define UC_SINCE_H

#include <linux/stddef.h>
#include <linux/types.h>

static __always_inline __u64 uc_since_ns(__u64 now_ns, __u64 then_ns)
{
	return now_ns < then_ns ? 0 : now_ns - then_ns;
}

#endif
