//! Processes without capabilities, as /proc shows them.

use std::fs;

use super::bench::wait_until;

/// User ID of a process without capabilities that was able to change its user.
pub const NOBODY: u32 = 65_534;

/// Returns the values of these lines of `/proc/PID/status`; `None`: there is no such process.
fn status<const N: usize>(pid: u32, names: [&str; N]) -> Option<[String; N]> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim().replace('\t', " ")
    };
    Some(names.map(value))
}

/// Returns the child processes whose command line has these words.
fn children(parent: u32, words: &[&str]) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap();
    let names = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse().ok());
    let is_one = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        status(*pid, ["PPid"]) == Some([parent.to_string()])
            && words.iter().all(|word| line.contains(&word.as_bytes()))
    };
    pids.filter(is_one).collect()
}

/// Waits for the child process with these words in its command line to give up its capabilities and to run as this
/// user. Returns its process ID.
pub fn confined_child(parent: u32, words: &[&str], user: u32) -> u32 {
    // A parent that is under a filter itself leaves it to its children.
    let inherited = status(parent, ["Seccomp_filters"]);
    let mut found = None;
    wait_until(&format!("{words:?} has no rights"), || {
        found = children(parent, words)
            .into_iter()
            .find(|&pid| status(pid, ["Seccomp_filters"]) > inherited);
        found.is_some()
    });
    let pid = found.unwrap();
    let user = [user; 4].map(|user| user.to_string()).join(" ");
    let none = "0000000000000000";
    assert_eq!(
        status(
            pid,
            ["Uid", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs"]
        ),
        Some([user.as_str(), none, none, none, none, "1"].map(str::to_owned))
    );
    // It needs no path: what it has open has none. Nor has it the output of the one that started it.
    let is_output = |(fd, target)| matches!(fd, 1 | 2).then_some(target);
    let outputs: Vec<String> = descriptors(parent)
        .into_iter()
        .filter_map(is_output)
        .collect();
    for (fd, target) in descriptors(pid) {
        let anonymous = ["socket:", "pipe:", "anon_inode:", "/memfd:"];
        let is_anonymous = anonymous.iter().any(|kind| target.starts_with(kind));
        let is_own = is_anonymous && !outputs.contains(&target);
        assert!(is_own, "descriptor {fd} of {words:?} is {target}");
    }
    pid
}

/// Returns the open descriptors of a process, each with what /proc says it refers to.
fn descriptors(pid: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        // It may be closed meanwhile.
        let target = fs::read_link(&path).ok()?;
        let fd = path.file_name()?.to_str()?.parse().ok()?;
        Some((fd, target.to_string_lossy().into_owned()))
    });
    open.collect()
}

/// Returns whether a process runs.
pub fn runs(pid: u32) -> bool {
    status(pid, ["State"]).is_some_and(|[state]| !state.starts_with('Z'))
}
