//! What can go wrong with a guest's congestion control, and what one can do about it.

use std::io;
use std::path::PathBuf;

/// Errors of this crate. Each names the thing, the place and the mend.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The process may not load BPF programs.
    #[error(
        "may not {action}: this needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; \
         run it with sudo"
    )]
    NotPermitted {
        /// What was tried.
        action: String,
    },
    /// The kernel takes no congestion control from BPF.
    #[error(
        "this kernel can't {action} ({source}); it needs CONFIG_BPF_JIT, CONFIG_DEBUG_INFO_BTF and \
         Linux 6.4 or newer"
    )]
    NoKernelSupport {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel has a congestion control of that name.
    #[error(
        "there is a congestion control '{name}' already; choose another name, or unload it where \
         it came from"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A name that the kernel would not take.
    #[error("'{name}' can't name a congestion control: 1 to {most} letters, digits, '_' and '.'")]
    BadName {
        /// The name.
        name: String,
        /// How long one may be; less than the kernel's where an ending follows.
        most: usize,
    },
    /// bpffs is not mounted where pins go.
    #[error("no BPF file system at {path}; mount one: mount -t bpf bpf /sys/fs/bpf")]
    NoBpffs {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// No unified hierarchy of control groups.
    #[error(
        "no unified hierarchy of control groups at {path}; mount one (mount -t cgroup2 none \
         {path}), or name another with --cgroup"
    )]
    NoCgroups {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It is there already.
    #[error("{name} is loaded already; unload it first: uc guest unload {name}")]
    Loaded {
        /// The name.
        name: String,
    },
    /// Nothing of that name was loaded by us.
    #[error(
        "no congestion control '{name}' was loaded here; `uc guest list` shows those that were"
    )]
    NotLoaded {
        /// The name.
        name: String,
    },
    /// A weight or a priority that nobody can have.
    #[error("{number} is no weight, priority or port; weights and priorities are 1 to 255")]
    BadWeight {
        /// The number.
        number: u8,
    },
    /// Anything else that the kernel refused.
    #[error("could not {action}: {source}")]
    Kernel {
        /// What was tried, and on what.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl GuestError {
    /// The kernel's refusal of `action`, sorted by what one can do about it.
    pub(crate) fn from_kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action },
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => Self::NoKernelSupport { action, source },
            _ if is_too_old() => Self::NoKernelSupport { action, source },
            _ => Self::Kernel { action, source },
        }
    }

    /// The same for an error of libbpf-rs, which hides its errno in a kind.
    pub(crate) fn from_libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        use libbpf_rs::ErrorKind;
        let action = action.into();
        let text = io::Error::other(format!("{source:#}"));
        match source.kind() {
            ErrorKind::PermissionDenied => Self::NotPermitted { action },
            // ESRCH: the kernel's BTF lacks a type or a function that the program names
            ErrorKind::Unsupported | ErrorKind::NotFound => Self::NoKernelSupport {
                action,
                source: text,
            },
            _ if is_too_old() => Self::NoKernelSupport {
                action,
                source: text,
            },
            _ => Self::Kernel {
                action,
                source: text,
            },
        }
    }
}

/// Is it before 6.4? Such a kernel refuses with many words, and none of them is that.
fn is_too_old() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version_of(&release).is_some_and(|version| version < FIRST)
}

/// From this one on a congestion control can be a pinned link.
const FIRST: (u32, u32) = (6, 4);

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_numbers_and_what_is_none_is_not_too_old() {
        assert!(version_of("5.10.0-46-amd64").unwrap() < FIRST);
        assert!(version_of("6.1.0-56-amd64").unwrap() < FIRST);
        assert!(version_of("6.12.117+deb13-amd64").unwrap() >= FIRST);
        assert_eq!(version_of("unknown"), None);
    }
}
