/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where paths of a program meet again, for the kernel's verifier.
 *
 * The verifier follows each path through a program. Two paths that meet are followed as one only if
 * it knows no more of any variable on the second path than on the first. A variable that is 0 on
 * one path and 1 on the other keeps them apart to the end of the program, and each such variable
 * doubles the number of paths.
 *
 * So what a branch has decided is merged where it ends: the verifier forgets the variable's value,
 * and the paths meet. The program computes the same with and without a merge.
 */
#ifndef UC_MERGE_H
#define UC_MERGE_H

#include <linux/types.h>

#ifdef __bpf__
/*
 * Makes the verifier forget the value of `x`, an integer. `unknown` is a number of which it knows
 * nothing, a clock reading for example. `x` is unchanged: it is XORed with `unknown` twice, by
 * instructions that the compiler does not see through. A value that is constant at compile time
 * stays known to the compiler and the verifier.
 */
#define uc_merge(x, unknown)                                                                       \
	do {                                                                                       \
		if (!__builtin_constant_p(x)) {                                                    \
			__u64 merged = (x);                                                        \
                                                                                                   \
			asm volatile("%0 ^= %1\n\t%0 ^= %1"                                        \
				     : "+&r"(merged)                                               \
				     : "r"((__u64)(unknown)));                                     \
			(x) = merged;                                                              \
		}                                                                                  \
	} while (0)
#else
#define uc_merge(x, unknown) ((void)(x), (void)(unknown))
#endif

#endif
