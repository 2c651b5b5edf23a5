//! Filters of the system calls that a process may make, as `seccomp(2)` applies them, from their form in a systemd
//! unit.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;

use crate::command::outcome;

/// Path of the header with the numbers of this architecture's system calls, by name.
const NUMBERS: &str = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";

const fn statement(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

const fn answer(k: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, k, 0, 0)
}

/// A filter of system calls. Once installed, this process and its children can make only these calls, or all except
/// these; other calls fail with the filter's errno.
#[derive(Clone)]
pub struct Filter(Vec<libc::sock_filter>);

impl Filter {
    /// Builds a filter that allows only the system calls with these numbers, or with `are_allowed` false refuses only
    /// these. Refused calls fail with `errno`.
    pub fn new(numbers: &[u32], are_allowed: bool, errno: i32) -> Self {
        let refused = libc::SECCOMP_RET_ERRNO | errno as u32;
        let (listed, others) = match are_allowed {
            true => (libc::SECCOMP_RET_ALLOW, refused),
            false => (refused, libc::SECCOMP_RET_ALLOW),
        };
        // Offset 0 of struct seccomp_data is the number of the system call.
        let mut filter = vec![statement(
            libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
            0,
            0,
            0,
        )];
        for &number in numbers {
            let is_it = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
            filter.extend([statement(is_it, number, 0, 1), answer(listed)]);
        }
        filter.push(answer(others));
        Self(filter)
    }

    /// Builds the filter of a systemd unit's `SystemCallFilter=` lines; `None` if the numbers of this architecture's
    /// system calls are not known.
    pub fn of_unit(unit: &str) -> Option<Self> {
        let numbers = numbers()?;
        let groups = groups();
        let mut allowed = BTreeSet::new();
        let lines = unit.lines();
        for words in lines.filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
            let denied = words.strip_prefix('~');
            for word in denied.unwrap_or(words).split_whitespace() {
                let mut named = BTreeSet::new();
                expand(word, &groups, &mut named);
                match denied {
                    Some(_) => allowed.retain(|name| !named.contains(name)),
                    None => allowed.extend(named),
                }
            }
        }
        let known: Vec<u32> = allowed
            .iter()
            .filter_map(|name| numbers.get(name))
            .copied()
            .collect();
        assert!(
            known.len() > 100,
            "{} of {} are known",
            known.len(),
            allowed.len()
        );
        Some(Self::new(&known, true, libc::EPERM))
    }

    /// Installs the filter in this process. Allocates no memory, so that it may be called between fork and exec.
    pub fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: self.0.len() as u16,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: numbers only, then a pointer to a program that lives through the call.
        let refused = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) != 0
        };
        match refused {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }
}

fn numbers() -> Option<BTreeMap<String, u32>> {
    let text = std::fs::read_to_string(NUMBERS).ok()?;
    let number = |line: &str| {
        let mut words = line.strip_prefix("#define __NR_")?.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    Some(text.lines().filter_map(number).collect())
}

/// Returns systemd's sets of system calls: members by the set's name, parsed from `systemd-analyze syscall-filter`,
/// which prints each name on a line and its members indented below.
fn groups() -> BTreeMap<String, Vec<String>> {
    let mut list = Command::new("systemd-analyze");
    list.args(["--no-pager", "syscall-filter"]);
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut group = String::new();
    // It complains where it can't compare them with the kernel's own list.
    let listed = outcome(list);
    assert_eq!(listed.status, Some(0), "{listed:?}");
    for line in listed.stdout.lines() {
        let word = line.trim();
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        if line.starts_with('@') {
            group = word.to_owned();
        } else {
            groups
                .entry(group.clone())
                .or_default()
                .push(word.to_owned());
        }
    }
    groups
}

fn expand(word: &str, groups: &BTreeMap<String, Vec<String>>, into: &mut BTreeSet<String>) {
    if !word.starts_with('@') {
        into.insert(word.to_owned());
        return;
    }
    for member in groups.get(word).unwrap_or_else(|| panic!("no set {word}")) {
        expand(member, groups, into);
    }
}

/// Returns a filter with which bpf(2) fails with ENOSYS, as on a kernel without it.
pub fn without_bpf() -> Filter {
    Filter::new(&[libc::SYS_bpf as u32], false, libc::ENOSYS)
}
