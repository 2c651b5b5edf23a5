/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Settings of the connections of a control group, and how often the kernel refused one. */
#ifndef UC_GUEST_TUNE_H
#define UC_GUEST_TUNE_H

#include <linux/types.h>

#define UC_TUNE_NAME_BYTES 16   /* TCP_CA_NAME_MAX, with the terminating NUL */
#define UC_TUNE_PATH_BYTES 1024 /* of the control group's folder, with the terminating NUL */

struct uc_tune_settings {
	__u8 congestion_control[UC_TUNE_NAME_BYTES]; /* empty: the connection's own */
	__u32 initial_window_segments;               /* 0: the kernel's */
	__u32 rto_min_us;                            /* 0: the kernel's, or the route's */
	__u8 cgroup[UC_TUNE_PATH_BYTES]; /* for readers of the pins; not for the program */
};

struct uc_tune_counts {
	__u64 connections; /* opened or accepted since the settings are in force */
	__u64 refused_congestion_control;
	__u64 refused_initial_window;
	__u64 refused_rto_min;
};

#endif
