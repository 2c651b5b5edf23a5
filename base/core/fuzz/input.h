/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The input of a run as a sequence of numbers. Behind its end all numbers are 0, so that every
 * input of any length is valid.
 */
#ifndef UC_FUZZ_INPUT_H
#define UC_FUZZ_INPUT_H

#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
	const __u8 *bytes;
	size_t left;
};

/* Fills `size` bytes with the next ones of the input. */
static inline void take(struct input *input, void *into, size_t size)
{
	size_t whole = input->left < size ? input->left : size;

	memset(into, 0, size);
	memcpy(into, input->bytes, whole);
	input->bytes += whole;
	input->left -= whole;
}

static inline __u8 take_byte(struct input *input)
{
	__u8 byte;

	take(input, &byte, sizeof(byte));
	return byte;
}

static inline __u32 take_word(struct input *input)
{
	__u32 word;

	take(input, &word, sizeof(word));
	return word;
}

/* Returns a time step, 1 ns to about 9 days, from one byte. */
static inline __u64 take_pause_ns(struct input *input)
{
	__u8 byte = take_byte(input);

	return (__u64)(1 + (byte & 7)) << (byte >> 3) * 3 / 2;
}

/* Ends the program, which libFuzzer reports with the input, if an invariant is broken. */
#define require(words, condition)                                                                  \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "broken invariant: %s (%s:%d)\n", words, __FILE__,         \
				__LINE__);                                                         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* Prints at the end of the program how often something was tried: "counted: N WORDS". */
#define COUNTED(name, words)                                                                       \
	static __u64 name;                                                                         \
	__attribute__((destructor)) static void print_##name(void)                                 \
	{                                                                                          \
		fprintf(stderr, "counted: %llu %s\n", (unsigned long long)name, words);            \
	}

#endif
