/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the object file says of itself: the layout of its maps, and its laws from outside the tree.
 * User space finds it in the file by its mark. The programs do not use it and libbpf loads no map
 * for it.
 */
#ifndef UC_ABOUT_H
#define UC_ABOUT_H

#include <linux/types.h>

#include "../../core/laws/table.h"

/* A number that differs between any two layouts of the maps; set by the compiler's -DUC_LAYOUT. */
#ifndef UC_LAYOUT
#define UC_LAYOUT 0
#endif

#define UC_ABOUT_MARK "\001UC port about\002"

/* One row of UC_LAWS_MORE. A text that is too long for its field is an error of the compiler. */
struct uc_about_law {
	__u8 name[24];
	__u8 machine[16];
	__u8 cut[16];
	__u8 what[128];
	__u8 why_it_cuts[192];
	__u32 traits; /* UC_WANTS_ECN, … */
	__u32 number; /* enum uc_law; 0: the row is not used */
};

struct uc_about {
	__u8 mark[16];
	__u64 layout;
	struct uc_about_law laws[UC_LAW_NUMBERS - UC_LAW_OUTSIDE];
};

#endif
