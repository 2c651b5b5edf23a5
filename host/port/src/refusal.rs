//! Which program the kernel's verifier rejected, and why. libbpf prints it and returns an errno,
//! mostly EACCES, which could also mean a lack of permission.

use std::cell::RefCell;

use libbpf_rs::{AsRawLibbpf, Object, OpenObject, PrintLevel};

use crate::error::PortError;

/// Size of the buffer for the verifier's log, in bytes. Linux 6.4 and later keep the end of a longer log,
/// earlier ones its beginning.
const LOG_BYTES: usize = 16 << 20;

thread_local! {
    /// The program that was rejected last; libbpf prints in the thread that loads.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Suppresses libbpf's own messages on standard error: they repeat the returned error at length,
/// and report as an error that a query finds no clsact qdisc.
pub(crate) fn silence_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
    LAST.set(None);
}

fn listen(_level: PrintLevel, message: String) {
    if let Some(program) = rejected_in(&message) {
        LAST.set(Some(program.to_owned()));
    }
}

/// Returns the rejected program's name from a message of libbpf 1.7.
fn rejected_in(message: &str) -> Option<&str> {
    let (program, rest) = message.split_once("prog '")?.1.split_once('\'')?;
    rest.starts_with(": BPF program load failed")
        .then_some(program)
}

/// Loads an object; [`silence_libbpf`] must have been called before in the same thread. A rejected
/// program is loaded once more with a log of limited size: with libbpf's own buffer, which grows, the log
/// of an endless loop takes minutes.
///
/// # Errors
/// The kernel's refusal; [`PortError::Refused`] names the program and the place.
pub(crate) fn load(action: &str, mut open: OpenObject) -> Result<Object, PortError> {
    let mut log = vec![0u8; LOG_BYTES];
    for program in open.progs_mut() {
        let program = program.as_libbpf_object().as_ptr();
        // SAFETY: libbpf uses the buffer only while it loads, and `log` lives longer.
        let code = unsafe {
            libbpf_sys::bpf_program__set_log_buf(program, log.as_mut_ptr().cast(), log.len() as _)
        };
        debug_assert_eq!(code, 0, "the object is not loaded yet");
    }
    let error = match open.load() {
        Ok(object) => return Ok(object),
        Err(error) => error,
    };
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
    let log = String::from_utf8_lossy(&log[..end]);
    // Without that capability the verifier rejects programs that could leak kernel memory.
    let rejected = LAST.take().filter(|_| !log.is_empty() && may_be_trusted());
    Err(match rejected {
        Some(program) => {
            let (said, place) = reason_in(&log);
            PortError::Refused {
                program,
                kernel: kernel(),
                said,
                place,
            }
        }
        None => PortError::from_libbpf(action, &error),
    })
}

/// Beginnings of lines that may follow the verifier's reason in its log.
const AFTERWORDS: [&str; 5] = [
    "processed ",
    "verification time ",
    "stack depth ",
    "cur state:",
    "old state:",
];

/// Returns the verifier's reason from its log, and the line of the source before it: empty if the log
/// names none.
fn reason_in(log: &str) -> (String, String) {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let is_afterword = |line: &str| AFTERWORDS.iter().any(|begin| line.starts_with(begin));
    let is_said = |line: &&&str| !line.is_empty() && !is_afterword(line);
    let is_cut = log.len() + 1 >= LOG_BYTES && !log.contains("\nprocessed ");
    let said = match lines.iter().rfind(is_said) {
        _ if is_cut => "its log exceeds 16 MiB; a loop may have no small bound",
        Some(said) => said,
        None => "nothing",
    };
    let place = lines.iter().rev().find_map(|line| line.strip_prefix("; "));
    (said.to_owned(), place.unwrap_or_default().to_owned())
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(|_| "?".to_owned(), |release| release.trim().to_owned())
}

/// Returns whether this process has CAP_PERFMON, itself or as part of CAP_SYS_ADMIN.
fn may_be_trusted() -> bool {
    const EITHER: u64 = 1 << 38 | 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    effective.is_none_or(|effective| effective & EITHER != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_about_a_rejected_program_has_its_name() {
        let failed = "libbpf: prog 'uc_open_port': BPF program load failed: Permission denied\n";
        assert_eq!(rejected_in(failed), Some("uc_open_port"));
        let other = "libbpf: prog 'uc_open_port': failed to find kernel BTF type\n";
        assert_eq!(rejected_in(other), None);
    }

    #[test]
    fn reason_is_the_last_line_of_the_log_and_the_place_the_last_line_of_source() {
        let reason = |log: &str| reason_in(log);
        let told = |said: &str, place: &str| (said.to_owned(), place.to_owned());
        let log = "0: R1=ctx()\n; first(); @ law.h:3\n1: r0 = 0\n; while (x) @ law.h:4\n2: r0 = 1\n\
                   invalid stack off=-520 size=8\nprocessed 7 insns (limit 1000000)\n";
        let place = "while (x) @ law.h:4";
        assert_eq!(reason(log), told("invalid stack off=-520 size=8", place));
        let log = "infinite loop detected at insn 3\ncur state: R0=0\nold state: R0=0\nprocessed 7 insns\n";
        assert_eq!(reason(log), told("infinite loop detected at insn 3", ""));
        assert_eq!(reason(""), told("nothing", ""));
        // an older kernel's, which keeps the beginning
        let (said, at) = reason(&"; while (x) @ law.h:4\n2: r0 = 1\n".repeat(LOG_BYTES / 32));
        assert!(said.contains("16 MiB"), "{said}");
        assert_eq!(at, place);
    }
}
