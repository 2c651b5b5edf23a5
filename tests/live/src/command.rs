//! Runs real programs, and checks their answers.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

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

/// Returns the path of a program of this repository that the tests run, in the folder of this build.
///
/// # Panics
/// The program is not there; the message names the command that builds it.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.ancestors().nth(2).unwrap();
    let path = folder.join(name);
    let of = if name == "uc" { "uc-cli" } else { name };
    assert!(path.is_file(), "no {}: cargo build -p {of}", path.display());
    path
}

/// Returns a path under which every user may run the program, even if the build's folder is closed to them: that of an
/// open file of this process, which its children inherit.
///
/// A copy of the program would not do: a child that another thread starts meanwhile inherits the copy's descriptor,
/// which is open for writing until the child runs its own program. The kernel does not run a file that is open for
/// writing (ETXTBSY).
pub fn for_everybody(program: &Path) -> PathBuf {
    static OPEN: Mutex<BTreeMap<PathBuf, OwnedFd>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.entry(program.to_owned()).or_insert_with(|| {
        let file = File::open(program).unwrap();
        // unlike `file`, a duplicate stays open in children
        nix::unistd::dup(&file).unwrap()
    });
    format!("/proc/self/fd/{}", open.as_raw_fd()).into()
}

/// Returns a command of the program for a user without any capability, whoever runs the tests.
pub fn unprivileged(program: &Path) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new(AS_NOBODY[0]);
    command.args(&AS_NOBODY[1..]).arg(for_everybody(program));
    command
}

/// Creates a temporary folder with the file `t.toml`, in which every user may read and write.
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

/// Runs the command, which must fail with one line that contains these parts in this order; returns that line.
pub fn refusal(command: Command, parts: &[&str]) -> String {
    let text = format!("{command:?}");
    let outcome = outcome(command);
    assert_refusal(&outcome, parts, &text);
    outcome.stderr
}

/// Checks that an outcome is a refusal: exit status 2, nothing on standard output, and one line on standard error that
/// contains the parts. `text` names the command in failures' messages.
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
    let is_ours = ["uc: ", "uc-bench: "]
        .iter()
        .any(|name| rest.starts_with(name));
    assert!(is_ours, "{text}: {rest}");
    for part in parts {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("{text}: no {part:?} in {}", outcome.stderr));
        rest = &rest[at + part.len()..];
    }
}
