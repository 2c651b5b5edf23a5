/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * HWatch on a tenant port: two programs that see each packet before the port's own programs. They
 * hold handshakes while probes measure the path, count the probes and marks that arrive, and write
 * first windows as core/watch.h decides.
 *
 * They use UAPI headers only, and nothing that Linux 5.10 lacks. What they don't understand passes.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "../write.h"
#include "arrive.h"
#include "hold.h"
#include "start.h"

static __always_inline struct uc_watch_control *uc_say(void)
{
	return uc_only_entry(&control);
}

static __always_inline __u8 uc_is_syn_ack(const struct uc_segment *segment)
{
	return (segment->flags & (UC_SYN | UC_ACK | UC_RST | UC_FIN)) == (UC_SYN | UC_ACK);
}

/* Decides whether a SYN or SYN-ACK of the guest waits: for probes, to be paced (`hold->wait_ns`),
 * or for the granter's answer (`hold->ask_bytes`). Returns the verdict. */
static __always_inline int uc_watch_opens(struct __sk_buff *skb, const struct uc_key *key,
					  const struct uc_watch_port *port,
					  const struct uc_watch_control *say, __u8 probes,
					  struct uc_hold *hold, __u64 now_ns)
{
	enum uc_watch_event event = UC_WATCH_HELD;
	__u8 waits = hold->wait_ns || hold->ask_bytes;

	if (bpf_map_lookup_elem(&held, key)) {
		event = UC_WATCH_REPEATED;
		waits = 0;
	} else if (now_ns >= say->alive_until_ns) {
		event = UC_WATCH_NOBODY;
		waits = 0;
	} else if (probes && !uc_is_allowed(port, key->ifindex, now_ns)) {
		event = UC_WATCH_OVER_RATE;
	} else if (probes) {
		event = uc_hold_probes(key, port, now_ns, hold);
		waits |= event == UC_WATCH_HELD;
	}
	if (waits)
		event = uc_hold(skb, key, hold, now_ns);
	uc_count_event(event);
	if (event == UC_WATCH_HELD && hold->ask_bytes)
		uc_count_event(UC_WATCH_ASKED);
	if (event == UC_WATCH_HELD)
		return TC_ACT_SHOT;
	if (probes)
		uc_hold_asks(key, now_ns);
	return TC_ACT_UNSPEC;
}

/* Writes the window that the core wants. Sets how long the packet waits, and for how many bytes to
 * ask the granter. */
static __always_inline void uc_watch_windows(struct __sk_buff *skb, const struct uc_frame *frame,
					     const struct uc_key *key,
					     const struct uc_watch_port *port,
					     const struct uc_segment *segment, __u64 now_ns,
					     struct uc_hold *hold)
{
	struct uc_watch_answer answer = {};
	struct uc_edit edit = uc_edit_none(segment);

	if (!uc_start_from_guest(key, port, segment, now_ns, &answer, &hold->wait_ns))
		return;
	hold->ask_bytes = answer.grant_bytes;
	if (answer.window != segment->window) {
		edit.window = answer.window;
		uc_count_event(uc_write(skb, frame, segment, &edit) ? UC_WATCH_EDIT_FAILED
								    : UC_WATCH_WINDOW);
	}
}

SEC("tcx/ingress")
int uc_watch_from_guest_port(struct __sk_buff *skb)
{
	struct uc_watch_control *say = uc_say();
	__u64 now_ns = bpf_ktime_get_ns();
	struct uc_key key = {.ifindex = skb->ifindex};
	struct uc_segment segment = {};
	struct uc_frame frame = {};
	struct uc_hold hold = {};
	struct uc_watch_port *port = bpf_map_lookup_elem(&watched, &key.ifindex);
	__u8 injected, syn, syn_ack, probes, granted;

	if (!say)
		return TC_ACT_UNSPEC;
	injected = say->mark && skb->mark == say->mark;
	if (injected) {
		skb->mark = 0;
		uc_count_event(UC_WATCH_INJECTED);
	}
	if (!port || uc_parse(skb, &key, &segment, &frame, UC_FROM_GUEST) != UC_TRANSLATED ||
	    uc_is_tagged(skb, &frame))
		return TC_ACT_UNSPEC;
	syn = uc_is_syn(&segment);
	syn_ack = uc_is_syn_ack(&segment);
	uc_merge(syn, now_ns);
	uc_merge(syn_ack, now_ns);
	if (injected) {
		if (!syn && !syn_ack)
			return TC_ACT_UNSPEC;
		/*
		 * A held frame comes back: it passes, and its entry is removed in the same step.
		 * User space can't do both at once: if it were killed in between, or if two
		 * processes worked at it, the frame would leave twice.
		 */
		if (!uc_hold_ends(&key)) {
			uc_count_event(UC_WATCH_SENT_ALREADY);
			return TC_ACT_SHOT;
		}
		uc_hold_asks(&key, now_ns);
		return TC_ACT_UNSPEC;
	}
	if (segment.options & (UC_OPT_SIGNED | UC_OPT_MPTCP))
		return TC_ACT_UNSPEC;
	if ((syn || syn_ack) && !uc_is_peer(&key)) {
		uc_count_event(UC_WATCH_NOT_A_PEER);
		return TC_ACT_UNSPEC;
	}
	if (syn && port->receives & UC_DATA_FROM_SERVER &&
	    uc_is_allowed(port, key.ifindex, now_ns) &&
	    uc_start_syn(&key, &segment, now_ns) == UC_WATCH_TABLE_FULL)
		uc_count_event(UC_WATCH_TABLE_FULL);
	granted = say->granted && now_ns < say->alive_until_ns;
	/* not in a copy of the policy: what the verifier learns of its fields would multiply the
	 * paths */
	if (port->policy.granted != granted)
		port->policy.granted = granted;
	uc_watch_windows(skb, &frame, &key, port, &segment, now_ns, &hold);
	probes = (syn && port->sends & UC_DATA_FROM_CLIENT) ||
		 (syn_ack && port->sends & UC_DATA_FROM_SERVER);
	if (probes || hold.wait_ns || hold.ask_bytes)
		return uc_watch_opens(skb, &key, port, say, probes, &hold, now_ns);
	return TC_ACT_UNSPEC;
}

SEC("tcx/egress")
int uc_watch_to_guest_port(struct __sk_buff *skb)
{
	struct uc_watch_control *say = uc_say();
	__u64 now_ns = bpf_ktime_get_ns();
	struct uc_key key = {.ifindex = skb->ifindex};
	struct uc_segment segment = {};
	struct uc_frame frame = {};
	struct uc_watch_port *port;
	enum uc_watch_event event;
	__u8 steady;

	if (!say)
		return TC_ACT_UNSPEC;
	/* the mark stays on the frame, for the program of the other direction */
	if (say->mark && skb->mark == say->mark)
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	port = bpf_map_lookup_elem(&watched, &key.ifindex);
	if (!port)
		return TC_ACT_UNSPEC;
	event = uc_probe_arrives(skb, port, say, now_ns);
	if (event != UC_WATCH_NOTHING) {
		uc_start_heard(port, key.ifindex, skb->len, 0, now_ns);
		uc_count_event(event);
		return TC_ACT_SHOT;
	}
	if (uc_parse(skb, &key, &segment, &frame, UC_TO_GUEST) != UC_TRANSLATED ||
	    uc_is_tagged(skb, &frame) || segment.options & (UC_OPT_SIGNED | UC_OPT_MPTCP)) {
		uc_start_heard(port, key.ifindex, skb->len, 1, now_ns);
		return TC_ACT_UNSPEC;
	}
	steady = !uc_is_syn(&segment) && uc_start_to_guest(&key, &segment, now_ns);
	uc_start_heard(port, key.ifindex, skb->len, steady, now_ns);
	if (!uc_is_syn(&segment)) {
		uc_hold_answered(&key, port, &segment, now_ns);
		return TC_ACT_UNSPEC;
	}
	if (port->receives & UC_DATA_FROM_CLIENT && uc_is_peer(&key) &&
	    uc_is_allowed(port, key.ifindex, now_ns) &&
	    uc_start_syn(&key, &segment, now_ns) == UC_WATCH_TABLE_FULL)
		uc_count_event(UC_WATCH_TABLE_FULL);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
