/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * PVTCP in a guest's own kernel. What is decided stands in core/steal.h; here it is hooked into
 * Linux' TCP by three hooks:
 *
 *   hrtimer_interrupt        how late is it done after the time for which it was programmed?
 *   tcp_write_timer_handler  the retransmission timer fires: put it off by a tick?
 *   tcp_ack_update_rtt       an ACK times something: hand another sample on?
 *
 * A CPU that idles without ticks has programmed its next interrupt for a later time, so it isn't
 * late however long it slept. The lateness is each CPU's own, and so is the clock: hooks run with
 * preemption off, and TCP's with interrupts off besides. So nothing here takes a lock.
 *
 * The first is a probe, for it needs the function's end; the others are ftrace's. Probes don't
 * nest: were all three probes, an interrupt that comes while one of TCP's runs would not be seen,
 * and a guest that works is often there when its CPU is taken.
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
/* From 6.19 on the timer's own time is that of the timeout; before, the socket has it as well. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
#error "uc_pvtcp doesn't know TCP's timers from Linux 6.19 on"
#endif

/* tcp_input.c's FLAG_DATA_ACKED and FLAG_SYN_ACKED: without them no time stamp is a sample */
#define ACKED         0x14
#define DEFERRED_BITS 10

/* What ftrace hands to its callbacks. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
#define ftrace_regs           pt_regs
#define ftrace_get_regs(regs) (regs)
#endif

/* One CPU's clock, and the late interrupt that it has not been told of yet. */
struct cpu_clock {
	struct uc_steal_clock clock;
	ktime_t woken;
	u32 late_ticks; /* 0: none */
	u64 in_vain;    /* timers that were put off and fired then: nothing had been waiting */
	u64 awaited;    /* timers put off because another CPU was late */
	const struct clock_event_device *dev; /* NULL: no interrupt yet */
};

static DEFINE_PER_CPU(struct cpu_clock, clocks);

/*
 * What the timers were put off to, by the socket's address. Sockets that share a place were put off
 * to the same tick if in the same stall; otherwise one of them may be put off once more.
 */
static struct uc_steal_timer deferred[1 << DEFERRED_BITS];

static struct uc_steal_policy policy __read_mostly;

static bool rto = true;
module_param(rto, bool, 0444);
MODULE_PARM_DESC(rto, "put off retransmission timeouts that a stall made due (default on)");

static bool tlp;
module_param(tlp, bool, 0444);
MODULE_PARM_DESC(tlp, "put off tail loss probes, too (default off)");

static char *filter = "srtt";
module_param(filter, charp, 0444);
MODULE_PARM_DESC(filter, "round-trip times with a stall: off, srtt (default), skip or flight");

static uint slack_ticks;
module_param(slack_ticks, uint, 0444);
MODULE_PARM_DESC(slack_ticks,
		 "ticks that an interrupt may be late without being a stall (default 0)");

/*
 * Tells this CPU's clock of a late interrupt. Not at the interrupt, but when TCP first sees a timer
 * or a packet after it: that may be a tick later, for the softirq that the stall broke into goes on
 * first.
 */
static struct uc_steal_clock *this_clock(u64 tick)
{
	struct cpu_clock *cpu = this_cpu_ptr(&clocks);
	u64 expected;

	if (!cpu->late_ticks)
		return &cpu->clock;
	/* when TCP had nothing to do for a whole tick, that of the wake-up has passed */
	tick -= div_u64(ktime_to_ns(ktime_sub(ktime_get(), cpu->woken)), TICK_NSEC);
	expected = tick - cpu->late_ticks;
	/* all was well until then: a CPU that idled has handled, as it were, what it didn't need */
	uc_steal_tick(&cpu->clock, &policy, expected - 1, expected - 1);
	uc_steal_tick(&cpu->clock, &policy, tick, expected);
	cpu->late_ticks = 0;
	return &cpu->clock;
}

/*
 * A timer that is overdue tells of a stall by itself: of one whose interrupt was not probed, or of
 * work in softirqs that kept the timers from running, and the packets with them. The wheel runs a
 * timer in the tick after its own, and one of a long timeout up to an eighth of that later.
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

/* The time for which the interrupt was programmed; the interrupt forgets it. */
static int at_interrupt(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct clock_event_device *dev = (void *)regs_get_kernel_argument(regs, 0);

	*(ktime_t *)instance->data = dev->next_event;
	this_cpu_write(clocks.dev, dev);
	return 0;
}

/* At its end: it may have been broken into itself, and what it has found due is late then, too. */
static int after_interrupt(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	ktime_t programmed = *(ktime_t *)instance->data;
	struct cpu_clock *cpu = this_cpu_ptr(&clocks);
	ktime_t now = ktime_get();
	u64 late_ticks;

	if (cpu->late_ticks && ktime_to_ns(ktime_sub(now, cpu->woken)) >= TICK_NSEC)
		this_clock(get_jiffies_64());
	if (ktime_before(now, programmed)) /* also if it was for nothing: KTIME_MAX */
		return 0;
	late_ticks = div_u64(ktime_to_ns(ktime_sub(now, programmed)), TICK_NSEC);
	if (late_ticks) {
		cpu->late_ticks = min_t(u64, late_ticks, U32_MAX);
		cpu->woken = now;
	}
	return 0;
}

/*
 * Whether another CPU is a tick late for its next interrupt: taken away, and perhaps with the ACK
 * that this CPU's timer is waiting for. One that is late for longer than the kernel's own least
 * timeout holds no socket any more.
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
		/* far below 0 where nothing is programmed: KTIME_MAX */
		late_ns = ktime_to_ns(ktime_sub(now, READ_ONCE(dev->next_event)));
		if (late_ns >= (s64)(1 + policy.slack_ticks) * TICK_NSEC &&
		    late_ns < (s64)TCP_RTO_MIN * TICK_NSEC)
			return true;
	}
	return false;
}

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
	/* The handler finds that it came too early, and arms the timer itself. */
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
 * bool tcp_ack_update_rtt(struct sock *sk, const int flag, long seq_rtt_us, long sack_rtt_us,
 *			   long ca_rtt_us, struct rate_sample *rs)
 */
static void handle_sample(struct pt_regs *regs)
{
	const struct tcp_sock *tp = tcp_sk((struct sock *)regs->di);
	long sample_us = (long)regs->dx >= 0 ? (long)regs->dx : (long)regs->cx;
	u64 tick = get_jiffies_64();
	enum uc_steal_rtt rtt;

	/* RFC 6298 §3, Karn: where there was no sample, none is made */
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
	 * For nearly every ACK: no stall to be told of, and none in this tick. One that begins
	 * after this look, or a task that goes on elsewhere, is later than what the ACK has timed.
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
/* Registered for good: the sysctl kernel.ftrace_enabled doesn't unhook them unseen. */
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

	/* ftrace takes names apart in place; one that it doesn't know is invalid to it */
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

	/* a CPU's interrupts don't nest */
	on_interrupt.maxactive = num_possible_cpus();
	error = register_kretprobe(&on_interrupt);
	return error ? refused(on_interrupt.kp.symbol_name, error) : 0;
}

static int __init pvtcp_init(void)
{
	int error = read_policy();

	/* what is told of a stall first, who learns of it last */
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
MODULE_VERSION("0.1.0");
