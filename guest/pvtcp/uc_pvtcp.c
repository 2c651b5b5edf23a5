/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * PVTCP in a guest's own kernel. core/steal.h takes the decisions; this module connects it to
 * Linux's TCP by three hooks:
 *
 *   hrtimer_interrupt        measures how late the interrupt ends after its programmed time
 *   tcp_write_timer_handler  may defer a retransmission timer that fires by a tick
 *   tcp_ack_update_rtt       may replace the round-trip time of an ACK
 *
 * A CPU that idles without ticks has programmed its next interrupt for a later time, so its sleep
 * isn't lateness. Each CPU has its own lateness and clock. Hooks run with preemption off, those of
 * TCP also with interrupts off, so no lock is needed.
 *
 * The first hook is a kretprobe, because it needs the function's end; the others use ftrace.
 * Kprobes don't nest: if all three were kprobes, an interrupt during one of TCP's would be missed,
 * and a busy guest is often there when its CPU is stalled.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/clockchips.h>
#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/version.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>

#include "steal.h"

#ifndef CONFIG_X86_64
#error "uc_pvtcp knows the registers of x86-64 only"
#endif
#ifndef CONFIG_DYNAMIC_FTRACE_WITH_REGS
#error "uc_pvtcp needs CONFIG_DYNAMIC_FTRACE_WITH_REGS"
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 10, 0)
#error "uc_pvtcp needs Linux 5.10 or newer"
#endif
/* Up to 6.18 the socket stores the time of its timeout; from 6.19 on only the timer does. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
#error "uc_pvtcp doesn't know TCP's timers from Linux 6.19 on"
#endif

/* FLAG_DATA_ACKED and FLAG_SYN_ACKED of tcp_input.c: without them no timestamp is a sample. */
#define ACKED         0x14
#define DEFERRED_BITS 10

/* The type of the registers that ftrace passes to callbacks. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
#define ftrace_regs           pt_regs
#define ftrace_get_regs(regs) (regs)
#endif

/* One CPU's clock, and a late interrupt that was not reported to the clock yet. */
struct cpu_clock {
	struct uc_steal_clock clock;
	ktime_t woken;  /* end of the late interrupt */
	u32 late_ticks; /* its lateness; 0: there is no such interrupt */
	u64 in_vain;    /* timers deferred unnecessarily: no ACK was waiting, they fired */
	u64 awaited;    /* timers deferred because another CPU was late */
	const struct clock_event_device *dev; /* NULL: no interrupt yet */
};

static DEFINE_PER_CPU(struct cpu_clock, clocks);

/*
 * The ticks to which timers were deferred, by a hash of the socket's address. Sockets with the same
 * hash are deferred to the same tick in the same stall; otherwise one of them may be deferred
 * twice.
 */
static struct uc_steal_timer deferred[1 << DEFERRED_BITS];

static struct uc_steal_policy policy __read_mostly;

static bool rto = true;
module_param(rto, bool, 0444);
MODULE_PARM_DESC(rto, "defer retransmission timeouts that a stall made due (default on)");

static bool tlp;
module_param(tlp, bool, 0444);
MODULE_PARM_DESC(tlp, "defer tail loss probes, too (default off)");

static char *filter = "srtt";
module_param(filter, charp, 0444);
MODULE_PARM_DESC(filter, "round-trip times with a stall: off, srtt (default), skip or flight");

static uint slack_ticks;
module_param(slack_ticks, uint, 0444);
MODULE_PARM_DESC(slack_ticks,
		 "ticks that an interrupt may be late without being a stall (default 0)");

/*
 * Updates and returns this CPU's clock. A late interrupt is reported to the clock when TCP first
 * handles a timer or a packet after it, not at the interrupt: that may be a tick later, because the
 * softirq that the stall interrupted finishes first.
 */
static struct uc_steal_clock *this_clock(u64 tick)
{
	struct cpu_clock *cpu = this_cpu_ptr(&clocks);
	u64 expected;

	if (!cpu->late_ticks)
		return &cpu->clock;
	/* back to the tick of the wake-up, if TCP had nothing to do for whole ticks since */
	tick -= div_u64(ktime_to_ns(ktime_sub(ktime_get(), cpu->woken)), TICK_NSEC);
	expected = tick - cpu->late_ticks;
	/* before the stall the clock was on time: ticks left out while idle count as handled */
	uc_steal_tick(&cpu->clock, &policy, expected - 1, expected - 1);
	uc_steal_tick(&cpu->clock, &policy, tick, expected);
	cpu->late_ticks = 0;
	return &cpu->clock;
}

/*
 * Reports a stall to the clock if a timer fires late: the interrupt was not probed, or softirqs
 * kept timers and packets from running. The timer wheel runs a timer in the tick after it is due,
 * and one with a long timeout up to an eighth of the timeout later; here a quarter is no stall.
 */
static void hear_timer(const struct inet_connection_sock *icsk, u64 due_tick, u64 tick)
{
	struct uc_steal_clock *clock = this_clock(tick);
	u32 grain = icsk->icsk_rto < 63 ? 0 : icsk->icsk_rto >> 2;

	if (tick - due_tick <= 1 + grain)
		return;
	uc_steal_tick(clock, &policy, due_tick - 1, due_tick - 1);
	uc_steal_tick(clock, &policy, tick, due_tick + 1 + grain);
}

/* Saves the time for which the interrupt was programmed, which the interrupt overwrites. */
static int at_interrupt(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct clock_event_device *dev = (void *)regs_get_kernel_argument(regs, 0);

	*(ktime_t *)instance->data = dev->next_event;
	this_cpu_write(clocks.dev, dev);
	return 0;
}

/* Measures the lateness at the interrupt's end: a stall during the interrupt delays the timers it
 * runs, too. */
static int after_interrupt(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	ktime_t programmed = *(ktime_t *)instance->data;
	struct cpu_clock *cpu = this_cpu_ptr(&clocks);
	ktime_t now = ktime_get();
	u64 late_ticks;

	if (cpu->late_ticks && ktime_to_ns(ktime_sub(now, cpu->woken)) >= TICK_NSEC)
		this_clock(get_jiffies_64());
	if (ktime_before(now, programmed)) /* also if nothing was programmed: KTIME_MAX */
		return 0;
	late_ticks = div_u64(ktime_to_ns(ktime_sub(now, programmed)), TICK_NSEC);
	if (late_ticks) {
		cpu->late_ticks = min_t(u64, late_ticks, U32_MAX);
		cpu->woken = now;
	}
	return 0;
}

/*
 * Returns whether another CPU is late for its next interrupt by a tick or more: it is stalled, and
 * may hold the ACK that this CPU's timer waits for. A CPU that is late by more than the kernel's
 * minimum RTO doesn't count.
 */
static bool another_is_late(void)
{
	ktime_t now = ktime_get();
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct clock_event_device *dev = READ_ONCE(per_cpu(clocks, cpu).dev);
		s64 late_ns;

		if (cpu == smp_processor_id() || !dev)
			continue;
		/* negative if nothing is programmed (KTIME_MAX) */
		late_ns = ktime_to_ns(ktime_sub(now, READ_ONCE(dev->next_event)));
		if (late_ns >= (s64)(1 + policy.slack_ticks) * TICK_NSEC &&
		    late_ns < (s64)TCP_RTO_MIN * TICK_NSEC)
			return true;
	}
	return false;
}

/* Defers a timer that fires, if a stall made it due. */
static void handle_timer(struct sock *sk)
{
	struct uc_steal_timer *timer = &deferred[hash_ptr(sk, DEFERRED_BITS)];
	struct inet_connection_sock *icsk = inet_csk(sk);
	u64 tick = get_jiffies_64();
	u64 due_tick = tick - (long)((unsigned long)tick - icsk->icsk_timeout);
	enum uc_steal_timer_kind kind;

	if (icsk->icsk_pending == ICSK_TIME_RETRANS)
		kind = UC_STEAL_RETRANSMISSION;
	else if (icsk->icsk_pending == ICSK_TIME_LOSS_PROBE)
		kind = UC_STEAL_TAIL_LOSS_PROBE;
	else
		return;
	if (due_tick > tick)
		return;
	hear_timer(icsk, due_tick, tick);
	/* the handler then finds the timer not due yet, and arms it again */
	if (uc_steal_defers(this_clock(tick), &policy, timer, kind, due_tick, tick))
		icsk->icsk_timeout = (unsigned long)tick + 1;
	else if (policy.timers >> kind & 1 && another_is_late()) {
		timer->given_tick = tick + 1;
		icsk->icsk_timeout = (unsigned long)tick + 1;
		this_cpu_inc(clocks.awaited);
	} else if (timer->given_tick == due_tick)
		this_cpu_inc(clocks.in_vain);
}

static void notrace at_timer(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			     struct ftrace_regs *fregs)
{
	struct pt_regs *regs = ftrace_get_regs(fregs);
	unsigned long flags;

	local_irq_save(flags);
	handle_timer((struct sock *)regs->di);
	local_irq_restore(flags);
}

/*
 * Replaces or drops the arguments of
 *
 *   bool tcp_ack_update_rtt(struct sock *sk, const int flag, long seq_rtt_us, long sack_rtt_us,
 *                           long ca_rtt_us, struct rate_sample *rs)
 */
static void handle_sample(struct pt_regs *regs)
{
	const struct tcp_sock *tp = tcp_sk((struct sock *)regs->di);
	long sample_us = (long)regs->dx >= 0 ? (long)regs->dx : (long)regs->cx;
	u64 tick = get_jiffies_64();
	enum uc_steal_rtt rtt;

	/* no sample, by Karn's rule (RFC 6298 §3): none is added */
	if (sample_us < 0 && !(tp->rx_opt.saw_tstamp && tp->rx_opt.rcv_tsecr && regs->si & ACKED))
		return;
	sample_us = max(sample_us, 0L);
	rtt = uc_steal_rtt(this_clock(tick), &policy, tick - div_u64(sample_us, USEC_PER_SEC / HZ),
			   tick);
	if (rtt == UC_STEAL_RTT_MEASURED)
		return;
	if (rtt == UC_STEAL_RTT_SMOOTHED && tp->srtt_us) {
		regs->dx = tp->srtt_us >> 3;
		regs->r8 = regs->dx;
		return;
	}
	regs->si &= ~ACKED;
	regs->dx = -1L;
	regs->cx = -1L;
	regs->r8 = -1L;
}

static void notrace at_sample(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			      struct ftrace_regs *fregs)
{
	const struct cpu_clock *cpu = raw_cpu_ptr(&clocks);
	unsigned long flags;

	/*
	 * The fast path of nearly each ACK: no stall to report, and none in this tick. A stall that
	 * begins after this check, or a move to another CPU, can't affect this ACK's sample.
	 */
	if (!cpu->late_ticks && !uc_steal_filters(&cpu->clock, &policy, get_jiffies_64()))
		return;
	local_irq_save(flags);
	handle_sample(ftrace_get_regs(fregs));
	local_irq_restore(flags);
}

static struct kretprobe on_interrupt = {
	.kp.symbol_name = "hrtimer_interrupt",
	.entry_handler = at_interrupt,
	.handler = after_interrupt,
	.data_size = sizeof(ktime_t),
};
/* With PERMANENT the sysctl kernel.ftrace_enabled can't switch the hooks off. */
#define HOOKED (FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_PERMANENT)

static struct ftrace_ops on_timer = {.func = at_timer, .flags = HOOKED};
static struct ftrace_ops on_sample = {.func = at_sample, .flags = HOOKED};

static struct ftrace_ops *hooks[2];
static unsigned int hook_count;

static int show_stats(char *buffer, const struct kernel_param *param)
{
	u64 spikes = 0, deferrals = 0, awaited = 0, in_vain = 0, filtered = 0;
	unsigned long missed = on_interrupt.nmissed + on_interrupt.kp.nmissed;
	u32 jump_ticks_max = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct uc_steal_clock *clock = &per_cpu(clocks, cpu).clock;

		spikes += clock->spikes;
		deferrals += clock->deferred;
		awaited += per_cpu(clocks, cpu).awaited;
		in_vain += per_cpu(clocks, cpu).in_vain;
		filtered += clock->filtered;
		jump_ticks_max = max(jump_ticks_max, clock->jump_ticks_max);
	}
	return scnprintf(buffer, PAGE_SIZE,
			 "spikes %llu\ndeferred %llu\nawaited %llu\nin_vain %llu\nfiltered %llu\n"
			 "jump_ticks_max %u\nmissed %lu\n",
			 spikes, deferrals, awaited, in_vain, filtered, jump_ticks_max, missed);
}

static int refuse_stats(const char *value, const struct kernel_param *param)
{
	return -EPERM;
}

static const struct kernel_param_ops stats_ops = {
	.set = refuse_stats,
	.get = show_stats,
};
module_param_cb(stats, &stats_ops, NULL, 0444);
MODULE_PARM_DESC(stats, "read: what was done since loading, a name and a number in a line each");

static int read_policy(void)
{
	static const char *const names[] = {
		[UC_STEAL_FILTER_OFF] = "off",
		[UC_STEAL_FILTER_SRTT] = "srtt",
		[UC_STEAL_FILTER_SKIP] = "skip",
		[UC_STEAL_FILTER_FLIGHT] = "flight",
	};
	unsigned int i;

	policy.slack_ticks = slack_ticks;
	policy.timers = rto << UC_STEAL_RETRANSMISSION | tlp << UC_STEAL_TAIL_LOSS_PROBE;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(filter, names[i])) {
			policy.filter = i;
			return 0;
		}
	}
	pr_err("filter=%s is none of off, srtt, skip and flight\n", filter);
	return -EINVAL;
}

static void unhook(void)
{
	while (hook_count) {
		struct ftrace_ops *ops = hooks[--hook_count];

		unregister_ftrace_function(ops);
		ftrace_set_filter(ops, NULL, 0, 1);
	}
}

static int refused(const char *symbol, int error)
{
	pr_err("this kernel's %s can't be hooked (%d): nothing is changed\n", symbol, error);
	unhook();
	return error;
}

static int hook(struct ftrace_ops *ops, const char *symbol)
{
	unsigned char name[KSYM_NAME_LEN];
	int error;

	/* ftrace modifies the name; it returns -EINVAL for an unknown one */
	strscpy(name, symbol, sizeof(name));
	error = ftrace_set_filter(ops, name, strlen(symbol), 1);
	if (error)
		return refused(symbol, error == -EINVAL ? -ENOENT : error);
	error = register_ftrace_function(ops);
	if (error) {
		ftrace_set_filter(ops, NULL, 0, 1);
		return refused(symbol, error);
	}
	hooks[hook_count++] = ops;
	return 0;
}

static int hook_interrupt(void)
{
	int error;

	/* one for each CPU: interrupts don't nest */
	on_interrupt.maxactive = num_possible_cpus();
	error = register_kretprobe(&on_interrupt);
	return error ? refused(on_interrupt.kp.symbol_name, error) : 0;
}

static int __init pvtcp_init(void)
{
	int error = read_policy();

	/* the hooks that use the clock first, the one that reports stalls to it last */
	if (!error && policy.timers)
		error = hook(&on_timer, "tcp_write_timer_handler");
	if (!error && policy.filter != UC_STEAL_FILTER_OFF)
		error = hook(&on_sample, "tcp_ack_update_rtt");
	if (!error)
		error = hook_interrupt();
	if (!error)
		pr_info("rto %d, tlp %d, filter %s, slack %u, tick %lu us\n", rto, tlp, filter,
			slack_ticks, TICK_NSEC / NSEC_PER_USEC);
	return error;
}

static void __exit pvtcp_exit(void)
{
	unregister_kretprobe(&on_interrupt);
	unhook();
}

module_init(pvtcp_init);
module_exit(pvtcp_exit);

MODULE_DESCRIPTION("TCP timeouts and round-trip times that know of stolen time (PVTCP)");
MODULE_AUTHOR("The Undercurrent authors");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("0.2.0");
