/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The smaller and the larger of two unsigned numbers, of 32 bits and of 64. */
#ifndef UC_MINMAX_H
#define UC_MINMAX_H

#include <linux/stddef.h>
#include <linux/types.h>

static __always_inline __u32 uc_min(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

static __always_inline __u32 uc_max(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 uc_min64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 uc_max64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

#endif
