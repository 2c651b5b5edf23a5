// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The core's tables as arrays: laws, and the parameters of policies and starts. Rows have pointers,
// so they never lie in maps and their names lack the prefix.
#include "core.h"
#include "watch/policy.h"

// One row of UC_LAWS.
struct law_row {
	const char *name;
	const char *what;
	const char *why_it_cuts;
	const char *machine;
	const char *cut;
	__u32 traits; // UC_WANTS_ECN, …
	__u8 number;  // enum uc_law
};

// One word of a row of kind WORD; its place is its number.
struct word_row {
	const char *word;
	const char *what;
};

// One row of UC_PARAMETERS or UC_START_SETTINGS.
struct parameter_row {
	const char *key;
	const char *what;
	const struct word_row *words;
	__u64 least;
	__u64 most;
	__u64 usual;
	__u32 laws; // bit n: law n has it
	__u32 kind; // enum uc_kind
	__u32 word_count;
	__u16 offset_bytes;
	__u8 size_bytes;
	__u8 needed; // 1: there is no usual value
};

const struct law_row *uc_shim_laws(__u32 *count);
const struct word_row *uc_shim_profiles(__u32 *count);
const struct parameter_row *uc_shim_parameters(__u32 *count);
const struct parameter_row *uc_shim_start_settings(__u32 *count);
__u64 uc_shim_field(const void *field, __u8 size_bytes);
void uc_shim_set_field(void *field, __u8 size_bytes, __u64 value);

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

const struct law_row *uc_shim_laws(__u32 *count)
{
	static const struct law_row rows[] = {
#define ROW(NAME, name, machine, cut, traits, state, parameters, what, why)                        \
	{#name, what, why, #machine, #cut, traits, UC_LAW_##NAME},
		UC_LAWS(ROW)
#undef ROW
	};

	*count = COUNT(rows);
	return rows;
}

#define WORD(NAME, word, what) {word, what},

const struct word_row *uc_shim_profiles(__u32 *count)
{
	static const struct word_row rows[] = {UC_PROFILES(WORD)};

	*count = COUNT(rows);
	return rows;
}

// A list of words without one has an end, too: arrays of no elements are no C.
#define WORDS(words)                                                                               \
	(const struct word_row[])                                                                  \
	{                                                                                          \
		words(WORD)                                                                        \
		{                                                                                  \
		}                                                                                  \
	}
#define ROW(key, laws, kind, field, least, most, usual, words, what)                               \
	{#key,                                                                                     \
	 what,                                                                                     \
	 WORDS(words),                                                                             \
	 least,                                                                                    \
	 most,                                                                                     \
	 usual,                                                                                    \
	 laws,                                                                                     \
	 UC_KIND_##kind,                                                                           \
	 COUNT(WORDS(words)) - 1,                                                                  \
	 __builtin_offsetof(OF, field),                                                            \
	 sizeof(((OF *)0)->field),                                                                 \
	 (usual) == UC_NEEDED},

// At file scope, where the words' arrays are constants.
#define OF struct uc_policy
static const struct parameter_row parameters[] = {UC_PARAMETERS(ROW)};
#undef OF
#define OF struct uc_watch_policy
static const struct parameter_row start_settings[] = {UC_START_SETTINGS(ROW)};
#undef OF

const struct parameter_row *uc_shim_parameters(__u32 *count)
{
	*count = COUNT(parameters);
	return parameters;
}

const struct parameter_row *uc_shim_start_settings(__u32 *count)
{
	*count = COUNT(start_settings);
	return start_settings;
}

// Returns the number in a field of 1, 2, 4 or 8 bytes.
__u64 uc_shim_field(const void *field, __u8 size_bytes)
{
	switch (size_bytes) {
	case 1:
		return *(const __u8 *)field;
	case 2:
		return *(const __u16 *)field;
	case 4:
		return *(const __u32 *)field;
	default:
		return *(const __u64 *)field;
	}
}

// Writes the number into the field: of more bits than it has, the lowest.
void uc_shim_set_field(void *field, __u8 size_bytes, __u64 value)
{
	switch (size_bytes) {
	case 1:
		*(__u8 *)field = (__u8)value;
		break;
	case 2:
		*(__u16 *)field = (__u16)value;
		break;
	case 4:
		*(__u32 *)field = (__u32)value;
		break;
	default:
		*(__u64 *)field = value;
	}
}
