// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// A symbol for what rule.h decides.
#include "core.h"
#include "rule.h"

__u8 uc_shim_matches(const struct uc_match *match, const struct uc_ends *ends);

__u8 uc_shim_matches(const struct uc_match *match, const struct uc_ends *ends)
{
	return uc_matches(match, ends);
}
