/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How a list of parameters is written: UC_PARAMETERS(X) in policy.h, UC_START_SETTINGS(X) in
 * watch/policy.h. User space reads the lists as data: keys of experiment and policy files, options
 * of the command line, ranges, usual values and descriptions. In BPF programs no row leaves a
 * trace.
 *
 * X(key, laws, kind, field, least, most, usual, words, what it is)
 *
 * key    its name in files; on the command line with - instead of _
 * laws   which laws have it: UC_OF(DCTCP), several joined by |, or UC_OF_ANY
 * kind   UC_KIND_*: how the field's number is written
 * field  of the struct that the list is about
 * least, most   of the field, in its own unit; of kind FLAG: 0, and the bit that stands for true
 * usual  the field's value where none is given; UC_NEEDED: one must be given. A usual value outside
 *        least to most switches off what the parameter is about, and nothing but leaving it out
 *        does
 * words  of kind WORD: a list X(NAME, "word", "what it means"), in the order of the field's numbers
 * what   one sentence: help, schema, documents
 */
#ifndef UC_PARAMETER_H
#define UC_PARAMETER_H

/* X(NAME, name, how it is written) */
#define UC_KINDS(X)                                                                                \
	X(Q7, "q7", "a fraction from 0 to 1; the field counts 128ths")                             \
	X(NUMBER, "number", "a whole number")                                                      \
	X(SEGMENTS, "segments", "a whole number of segments")                                      \
	X(WORD, "word", "one of some words; the field has its number")                             \
	X(FLAG, "flag", "true or false; a bit of the field")                                       \
	X(US, "us", "a time, rounded up to whole microseconds")                                    \
	X(NS, "ns", "a time in nanoseconds")                                                       \
	X(BYTES, "bytes", "a size; the field counts bytes")                                        \
	X(RATE, "rate", "a rate in bits per second; the field counts bytes per second")

enum uc_kind {
#define UC_KIND_ENUM(NAME, ...) UC_KIND_##NAME,
	UC_KINDS(UC_KIND_ENUM)
#undef UC_KIND_ENUM
};

#define UC_OF(NAME) (1U << UC_LAW_##NAME)
/* Every law but `pass`, whose number is 0. */
#define UC_OF_ANY 0xfffeU

#define UC_U32 0xffffffffULL
#define UC_U64 0xffffffffffffffffULL
/* Value of `usual`: the parameter must be given. No field's value is as large. */
#define UC_NEEDED UC_U64
#define UC_NO_WORDS(X)

#endif
