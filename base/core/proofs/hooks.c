/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The hooks of a port, at any times: a hook that has just seen a segment is not blind. */
#include "proof.h"

struct uc_hooks any_hooks(void);

int main(void)
{
	struct uc_hooks hooks = any_hooks();
	struct uc_segment segment = any_segment();
	__u64 now_ns = any_long();

	/* the clock has not run backwards since the other hook's last segment */
	assume(hooks.run_end_ns[0] <= now_ns && hooks.run_end_ns[1] <= now_ns);
	assume(segment.direction <= UC_TO_GUEST);
	uc_hook_saw(&hooks, &segment, now_ns);
	prove("a hook that has seen a segment is not blind",
	      !uc_is_blind(&hooks, segment.direction));
	uc_hooks_ask(&hooks, now_ns);
	return 0;
}
