/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Two ways to look into a map that every program needs. */
#ifndef UC_LOOKUP_H
#define UC_LOOKUP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Returns the only entry of a map, under key 0: settings, or scratch memory of a CPU. */
static __always_inline void *uc_only_entry(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

/* Returns the value under `key`; if there is none, adds a copy of `fresh` and returns that. NULL if
 * the map is full. If another CPU adds the same key first, its value is returned. */
static __always_inline void *uc_find_or_add(void *map, const void *key, const void *fresh)
{
	void *value = bpf_map_lookup_elem(map, key);

	if (value)
		return value;
	bpf_map_update_elem(map, key, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

#endif
