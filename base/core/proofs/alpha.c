/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* DCTCP's estimate of the marked fraction is at most 1: apart, because of its division of 64 bits.
 */
#include "state.h"

int main(void)
{
	struct uc_flow flow = any_flow();
	struct uc_dctcp *dctcp = &flow.dctcp;
	struct uc_sample sample = {.acked_bytes = any_word()};

	/* an ACK moves SND.UNA by less than 2^31 bytes, or it is old (track.h) */
	set_law(&flow.policy);
	assume(uc_is_fraction(dctcp) && uc_is_counted(dctcp));
	assume(sample.acked_bytes <= 0x7fffffff);
	sample.marked_bytes = any_word();
	assume(sample.marked_bytes <= sample.acked_bytes);
	if (any_byte())
		uc_dctcp_observe(&flow, &sample);
	else
		uc_dctcp_open(&flow);
	prove("alpha is at most 1", uc_is_fraction(dctcp));
	prove("the sums do not wrap", uc_is_counted(dctcp));
	return 0;
}
