//! Which program the kernel's verifier rejected, and why. libbpf prints it and returns an errno,
//! mostly EACCES, which could also mean a lack of permission.

use std::cell::RefCell;

use libbpf_rs::PrintLevel;

use crate::error::PortError;

/// A rejection by the verifier.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    program: String,
    /// The last line of its log that is not statistics.
    said: String,
}

thread_local! {
    /// The latest rejection; libbpf prints in the thread that loads.
    static LAST: RefCell<Option<Refusal>> = const { RefCell::new(None) };
}

/// Suppresses libbpf's own messages on standard error: they repeat the returned error at length,
/// and report as an error that a query finds no clsact qdisc.
pub fn silence_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
    LAST.set(None);
}

fn listen(_level: PrintLevel, message: String) {
    if let Some(refusal) = refusal_in(&message) {
        LAST.set(Some(refusal));
    }
}

/// Parses the message of libbpf 1.7: the program's name, and the verifier's log between two lines.
fn refusal_in(message: &str) -> Option<Refusal> {
    let (_, rest) = message.split_once("prog '")?;
    let (program, rest) = rest.split_once('\'')?;
    let (_, log) = rest.split_once("-- BEGIN PROG LOAD LOG --\n")?;
    let (log, _) = log.split_once("-- END PROG LOAD LOG --")?;
    let mut lines = log.lines().map(str::trim);
    let said = lines
        .rfind(|line| !line.is_empty() && !line.starts_with("processed "))
        .unwrap_or("nothing");
    Some(Refusal {
        program: program.to_owned(),
        said: said.to_owned(),
    })
}

impl PortError {
    /// Classifies the kernel's refusal to load programs; [`silence_libbpf`] must have been called
    /// before in the same thread.
    pub fn from_loading(action: impl Into<String>, source: &libbpf_rs::Error) -> PortError {
        match LAST.take() {
            // Without that capability the verifier rejects programs that could leak kernel memory.
            Some(refusal) if may_be_trusted() => PortError::Refused {
                program: refusal.program,
                kernel: kernel(),
                said: refusal.said,
            },
            _ => PortError::from_libbpf(action, source),
        }
    }
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
    fn the_log_names_the_program_and_its_last_line_the_reason() {
        let message = "libbpf: prog 'uc_open_port': -- BEGIN PROG LOAD LOG --\n\
                       0: R1=ctx()\ninvalid stack off=-520 size=8\n\
                       processed 7 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";
        let refusal = refusal_in(message).unwrap();
        assert_eq!(refusal.program, "uc_open_port");
        assert_eq!(refusal.said, "invalid stack off=-520 size=8");
        let failed = "libbpf: prog 'uc_open_port': BPF program load failed: Permission denied\n";
        assert_eq!(refusal_in(failed), None);
    }
}
