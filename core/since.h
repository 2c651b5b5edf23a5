/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Time since a moment. A platform reads its clock when a packet arrives and takes the lock later,
 * so the CPU that gets the lock second may have the earlier reading. Then the time since is 0; the
 * plain difference would be about 585 years.
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
