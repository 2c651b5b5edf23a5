//! Runs the real binary, and checks its answers.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::seccomp::Filter;

/// Words before a command that remove all its capabilities.
pub const AS_NOBODY: [&str; 7] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--",
];

/// Path under which every user may run `uc`, though the build's folder may be closed: an open file of
/// this process, which its children inherit.
///
/// A copy would be in danger: a child that another thread starts meanwhile holds it open for writing until
/// it runs its own program, and the kernel runs no file that is open for writing (ETXTBSY).
pub fn for_everybody() -> PathBuf {
    static OPEN: OnceLock<OwnedFd> = OnceLock::new();
    let open = OPEN.get_or_init(|| {
        let file = File::open(env!("CARGO_BIN_EXE_uc")).unwrap();
        // unlike `file`, a duplicate stays open in children
        nix::unistd::dup(&file).unwrap()
    });
    format!("/proc/self/fd/{}", open.as_raw_fd()).into()
}

/// Returns `uc` as a user without any capability, whoever runs the tests.
pub fn uc_unprivileged() -> Command {
    if !nix::unistd::geteuid().is_root() {
        return Command::new(env!("CARGO_BIN_EXE_uc"));
    }
    let mut command = Command::new(AS_NOBODY[0]);
    command.args(&AS_NOBODY[1..]).arg(for_everybody());
    command
}

/// Creates a folder with an experiment in it, in which every user may read and write.
pub fn folder_with(text: &str) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.toml"), text).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    folder
}

/// Returns the names in a folder, sorted.
pub fn names_in(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status; `None` after a signal.
    pub status: Option<i32>,
    /// The text on standard output.
    pub stdout: String,
    /// The text on standard error.
    pub stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the command to its end.
pub fn outcome(mut command: Command) -> Outcome {
    let output = command.stdin(std::process::Stdio::null()).output();
    output
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
        .into()
}

/// Runs the command, which must succeed, and returns its standard output.
pub fn success(command: Command) -> String {
    let text = format!("{command:?}");
    let outcome = outcome(command);
    assert_eq!(outcome.status, Some(0), "{text}: {outcome:?}");
    assert_eq!(outcome.stderr, "", "{text}");
    outcome.stdout
}

/// Runs the command, which must be refused in one line with these parts, in this order.
pub fn refusal(command: Command, parts: &[&str]) -> String {
    let text = format!("{command:?}");
    let outcome = outcome(command);
    assert_refusal(&outcome, parts, &text);
    outcome.stderr
}

/// Checks a refusal: status 2, nothing on standard output, one line on standard error.
pub fn assert_refusal(outcome: &Outcome, parts: &[&str], text: &str) {
    assert_eq!(outcome.status, Some(2), "{text}: {outcome:?}");
    assert_eq!(outcome.stdout, "", "{text}");
    assert_eq!(
        outcome.stderr.lines().count(),
        1,
        "{text}: {}",
        outcome.stderr
    );
    println!("{}", outcome.stderr.trim_end());
    let causes = outcome.stderr.matches("os error").count();
    assert!(
        causes <= 1,
        "{text}: a cause is told twice: {}",
        outcome.stderr
    );
    let mut rest = outcome.stderr.as_str();
    assert!(rest.starts_with("uc: "), "{text}: {rest}");
    for part in parts {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("{text}: no {part:?} in {}", outcome.stderr));
        rest = &rest[at + part.len()..];
    }
}

/// Makes bpf(2) fail with ENOSYS in this process and its children, as on a kernel without it.
pub fn without_bpf() -> Filter {
    Filter::new(&[libc::SYS_bpf as u32], false, libc::ENOSYS)
}
