//! Faults that a guest's kernel reports on its console: it dies, it warns, or one of its checks
//! (KASAN, lockdep) finds an error.

/// Maximum number of lines of a report in an error, counted from the line that names the fault.
const REPORT_LINES: usize = 100;
/// Number of lines before the line that names the fault in which the report's frame may begin.
const FRAME_LINES: usize = 2;
/// Number of lines that are added before a report without a frame: if the first program ends, the kernel dies, and
/// these lines say why.
const LINES_BEFORE: usize = 5;
/// Beginnings of the messages that name a fault. Lockdep puts some in brackets.
const BEGINNINGS: [&str; 10] = [
    "BUG: ",
    "BUG ", // SLUB, before the name of a cache
    "[ BUG: ",
    "WARNING: ",
    "Oops",
    "general protection fault",
    "kernel BUG at ",
    "Kernel panic",
    "watchdog: BUG: ",
    "INFO: trying to register non-static key", // lockdep gives up
];
/// Text in the line that names a death of the kernel, of any kind: the kernel counts its deaths there.
const DEATH: &str = " [#1] ";
/// Lines that frame a report.
const FRAMES: [&str; 2] = ["------------[ cut here ]", "======"];

/// Returns the first report of a fault in a console's text, as far as it is there: its frame or the few lines before
/// it, the line that names the fault, and lines after it. `None` without a fault.
pub fn first_report(console: &str) -> Option<String> {
    let lines: Vec<&str> = console.lines().map(str::trim_end).collect();
    let named = lines.iter().position(|line| names_fault(line))?;
    let frame = (named.saturating_sub(FRAME_LINES)..named).find(|at| is_frame(lines[*at]));
    let end = lines.len().min(named + REPORT_LINES);
    let begin = frame.unwrap_or(named.saturating_sub(LINES_BEFORE));
    Some(lines[begin..end].join("\n"))
}

/// Returns whether the text of `/proc/lockdep_stats` says that lockdep checks locks.
pub fn lockdep_is_on(stats: &str) -> bool {
    let states = |line: &str| line.split_whitespace().eq(["debug_locks:", "1"]);
    stats.lines().any(states)
}

fn names_fault(line: &str) -> bool {
    message(line).is_some_and(|text| {
        BEGINNINGS.iter().any(|words| text.starts_with(words)) || text.contains(DEATH)
    })
}

fn is_frame(line: &str) -> bool {
    message(line).is_some_and(|text| FRAMES.iter().any(|words| text.starts_with(words)))
}

/// Returns the kernel's message in a line, without its time: `[   12.345678] text`. `None` for a program's line. A
/// program's last line may end without a line feed, so a message may begin within a line.
fn message(line: &str) -> Option<&str> {
    let (_, after) = line.split_once('[')?;
    let (time, text) = after.split_once("] ")?;
    time.trim_start().parse::<f64>().ok().map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of the boot of Debian's 6.12.118, in which a module then warns by WARN_ON.
    const WARNED: &str = "Probing EDD (edd=off to disable)... ok\r
[   10.403430] PCI: Fatal: No config space access function found\r
[   21.637961] amd_pstate: the _CPC object is not present in SBIOS or ACPI disabled\r
[   37.823754] faulty: loading out-of-tree module taints kernel.\r
[   37.863581] ------------[ cut here ]------------\r
[   37.868917] WARNING: CPU: 0 PID: 1 at faulty.c:13 faulty_init+0x47/0xff0 [faulty]\r
[   37.876597] Modules linked in: faulty(OE+) virtio_net net_failover failover virtio_mmio\r
[   37.969770] Call Trace:\r
[   37.978313]  <TASK>\r
[   37.978476]  do_one_initcall+0x58/0x310\r
";
    /// A module of that kernel has written to address 8.
    const DIED: &str =
        "[   37.874481] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   37.874846] #PF: supervisor write access in kernel mode
[   37.874978] #PF: error_code(0x0002) - not-present page
[   37.875355] Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI
[   37.896180] RIP: 0010:faulty_init+0x24/0xff0 [faulty]
";
    /// A module of a kernel with KASAN reads freed memory.
    const USED_AFTER_FREE: &str = "[  108.884621] faulty: loading out-of-tree module taints kernel.
[  111.141980] ==================================================================
[  111.143053] BUG: KASAN: slab-use-after-free in faulty_init+0x17b/0x1000 [faulty]
[  111.279153] Read of size 4 at addr ffff8880060cb20c by task uc/1
";
    /// A module takes two locks in either order.
    const CROSSED: &str = "[  102.825371] 
[  102.825698] ======================================================
[  102.825867] WARNING: possible circular locking dependency detected
[  102.826391] 6.12.118-kasan #2 Tainted: G           O      
";

    #[test]
    fn reports_of_kasan_and_lockdep_begin_with_their_lines_too() {
        for (console, lines) in [(USED_AFTER_FREE, 3), (CROSSED, 3)] {
            let report = first_report(console).unwrap();
            assert!(report.contains("] ====="), "{report}");
            assert_eq!(report.lines().count(), lines, "{report}");
        }
    }

    #[test]
    fn report_begins_with_its_frame_and_has_what_follows() {
        let report = first_report(WARNED).unwrap();
        assert!(
            report.starts_with("[   37.863581] ------------[ cut here ]------------\n"),
            "{report}"
        );
        assert!(report.ends_with("do_one_initcall+0x58/0x310"), "{report}");
        assert_eq!(report.lines().count(), 6);
        assert!(!report.contains('\r'));
    }

    #[test]
    fn the_first_of_two_reports_is_returned_and_a_long_one_is_cut() {
        let between = "[   37.993093]  ? timerqueue_add+0xa3/0xc0\n".repeat(200);
        let report = first_report(&format!("{WARNED}{between}{DIED}")).unwrap();
        assert!(report.contains("WARNING: CPU: 0") && !report.contains("BUG"));
        assert_eq!(report.lines().count(), 1 + REPORT_LINES);
        let report = first_report(DIED).unwrap();
        assert!(report.contains("] BUG: kernel NULL") && report.contains("Oops: 0002"));
    }

    #[test]
    fn checks_and_old_kernels_have_words_of_their_own() {
        for text in [
            "general protection fault: 0000 [#1] SMP NOPTI",
            "invalid opcode: 0000 [#1] SMP PTI",
            "kernel BUG at net/core/skbuff.c:110!",
            "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000009",
            "BUG kmalloc-64 (Tainted: G    B     ): Poison overwritten",
            "[ BUG: Invalid wait context ]",
            "INFO: trying to register non-static key.",
        ] {
            let console =
                format!("far before\n1\n2\n3\n4\nuc: why it ends\n[    2.000001] {text}\n");
            let report = format!("1\n2\n3\n4\nuc: why it ends\n[    2.000001] {text}");
            assert_eq!(first_report(&console), Some(report));
        }
    }

    #[test]
    fn other_messages_and_programs_texts_are_no_reports() {
        let (before, _) = WARNED.split_once("[   37.863581]").unwrap();
        assert_eq!(first_report(before), None);
        for text in [
            "WARNING: this is a program's",
            "[warn] BUG: 7",
            "[   12.5] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "[   12.5] debug: no WARNING: at all",
            "",
        ] {
            assert_eq!(first_report(text), None, "{text}");
        }
    }

    #[test]
    fn lockdep_is_on_only_if_its_statistics_say_so() {
        let stats =
            " redundant links:                        0\n debug_locks:                            ";
        assert!(lockdep_is_on(&format!("{stats}1\n\n zapped classes: 3\n")));
        assert!(!lockdep_is_on(&format!("{stats}0\n")));
        assert!(!lockdep_is_on(""));
    }
}
