/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Programs and maps with the names and the layout of a port's, which do nothing: the simulated
 * kernel runs no program, and libbpf loads these a hundred times faster.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "../../../../bpf/port/about.h"
#include "../../../../bpf/port/events.h"
#include "../../../../bpf/port/maps.h"
#include "../../../../bpf/port/open.h"

/* Uses the maps by which the simulated kernel tells one version of the state from another. */
static __always_inline int uc_use(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&flows, &key) && bpf_map_lookup_elem(&asked, &key) &&
	       bpf_map_lookup_elem(&ports, &key) && bpf_map_lookup_elem(&plan, &key) &&
	       bpf_map_lookup_elem(&tail_calls, &key);
}

#define UC_PROGRAM(name)                                                                           \
	SEC("tc")                                                                                  \
	int name(struct __sk_buff *skb)                                                            \
	{                                                                                          \
		(void)skb;                                                                         \
		return uc_use();                                                                   \
	}

UC_PROGRAM(uc_from_guest_port)
UC_PROGRAM(uc_to_guest_port)
UC_PROGRAM(uc_share_port)
UC_PROGRAM(uc_join_port)
UC_PROGRAM(uc_open_port)
UC_PROGRAM(uc_collect_idle)
UC_PROGRAM(uc_note_port)
UC_PROGRAM(uc_marked_port)

const struct uc_about uc_about_port SEC("about") = {
	.mark = UC_ABOUT_MARK,
	.layout = UC_LAYOUT,
	.laws = {{"feigned", "window", "half", UC_BUILD, "", 0, UC_LAW_OUTSIDE}},
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
