/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What becomes of handshakes and probes: one list, from which the counters' names in records, JSON
 * and tables come. Each event is counted in the map `watch_events`.
 */
#ifndef UC_WATCH_EVENT_H
#define UC_WATCH_EVENT_H

/* X(name, label, what it means) */
#define UC_WATCH_EVENTS(X)                                                                         \
	X(HELD, "held", "handshakes that waited for probes or their turn")                         \
	X(ASKED, "asked", "first windows for which the granter was asked")                         \
	X(INJECTED, "injected", "probes and handshakes sent by the holder")                        \
	X(NOT_A_PEER, "not-a-peer", "handshakes with hosts that aren't known to run us: passed")   \
	X(NOBODY, "nobody", "handshakes while no holder was alive: passed")                        \
	X(OVER_RATE, "over-rate", "handshakes beyond their port's rate: passed")                   \
	X(RECENT, "recent", "handshakes on paths measured a moment before: passed")                \
	X(REPEATED, "repeated", "copies of handshakes that waited: passed")                        \
	X(NO_ROOM, "no-room", "handshakes for which there was no place: passed")                   \
	X(PROBE, "probe", "probes that arrived without a mark")                                    \
	X(PROBE_CE, "probe-ce", "probes that arrived marked")                                      \
	X(PROBE_SLOW, "probe-slow", "probes that fell behind others of their flow: as if marked")  \
	X(TRUNCATED, "probe-truncated", "probes of the wrong length: dropped")                     \
	X(UNKNOWN, "probe-unknown", "probes that make no sense: dropped")                          \
	X(FORGED, "probe-forged", "probes with a wrong tag: dropped")                              \
	X(LATE, "probe-late", "probes from another time: dropped")                                 \
	X(REPLAYED, "probe-replayed",                                                              \
	  "probes that were counted already, or of a connection that is over: dropped")            \
	X(TABLE_FULL, "table-full", "flows for which there was no place: not watched")             \
	X(WINDOW, "window", "windows that were lowered")                                           \
	X(EDIT_FAILED, "edit-failed", "windows that the kernel would not write")                   \
	X(SENT_ALREADY, "sent-already",                                                            \
	  "handshakes that were sent once more, after a holder's end: dropped")

enum uc_watch_event {
#define UC_WATCH_EVENT_ENUM(name, label, meaning) UC_WATCH_##name,
	UC_WATCH_EVENTS(UC_WATCH_EVENT_ENUM)
#undef UC_WATCH_EVENT_ENUM
		UC_WATCH_EVENT_COUNT,
	UC_WATCH_NOTHING = UC_WATCH_EVENT_COUNT, /* no event: nothing is counted */
};

#endif
