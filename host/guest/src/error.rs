//! What can go wrong with a guest's congestion control, and what one can do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use libbpf_rs::ErrorKind;

/// Errors of this crate. Each names the object, the place and the remedy.
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
    /// The kernel takes no such programs.
    #[error(
        "this kernel can't {action} ({source}); it needs CONFIG_BPF_JIT, CONFIG_DEBUG_INFO_BTF and \
         Linux {needed} or newer"
    )]
    NoKernelSupport {
        /// What was tried.
        action: String,
        /// The first that takes them.
        needed: Linux,
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
    /// There is no bpffs at the place of the pins.
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
    /// What is to be loaded is loaded already.
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

/// A kernel's version: 6.4 is `Linux(6, 4)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linux(pub u32, pub u32);

impl fmt::Display for Linux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Linux {
    fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(['.', '-']).map(str::parse);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// Is this machine's older?
    fn is_missing(self) -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::of_release(&release).is_some_and(|found| found < self)
    }
}

impl GuestError {
    /// The kernel's refusal of `action`, sorted by what one can do about it.
    pub(crate) fn from_kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action },
            _ => Self::Kernel { action, source },
        }
    }

    /// Makes an error of one of libbpf-rs, which hides its errno in a kind.
    pub(crate) fn from_libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        let action = action.into();
        match source.kind() {
            ErrorKind::PermissionDenied => Self::NotPermitted { action },
            _ => Self::Kernel {
                action,
                source: io::Error::other(format!("{source:#}")),
            },
        }
    }

    /// Makes an error of loading or attaching programs that need this kernel. An older kernel
    /// refuses them with a message that doesn't name the cause.
    pub(crate) fn from_loading(
        action: impl Into<String>,
        source: &libbpf_rs::Error,
        needed: Linux,
    ) -> Self {
        // What the kernel was built without. (For ESRCH, a type that its BTF lacks, libbpf-rs has no
        // kind: it is told as it is.)
        let lacks = matches!(source.kind(), ErrorKind::Unsupported | ErrorKind::NotFound);
        match Self::from_libbpf(action, source) {
            Self::Kernel { action, source } if lacks || needed.is_missing() => {
                Self::NoKernelSupport {
                    action,
                    needed,
                    source,
                }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYBODYS: Linux = Linux(2, 6);
    const NOBODYS: Linux = Linux(999, 0);

    fn loading(errno: i32, needed: Linux) -> String {
        let refusal = libbpf_rs::Error::from_raw_os_error(errno);
        GuestError::from_loading("load it", &refusal, needed).to_string()
    }

    #[test]
    fn releases_are_compared_by_numbers_and_what_is_none_is_unknown() {
        let first = Some(Linux(6, 4));
        assert!(Linux::of_release("5.10.0-46-amd64") < first);
        assert!(Linux::of_release("6.1.0-56-amd64") < first);
        assert!(Linux::of_release("6.12.117+deb13-amd64") > first);
        assert_eq!(Linux::of_release("unknown"), None);
    }

    #[test]
    fn a_kernel_that_is_too_old_is_told_what_these_programs_need_and_no_others() {
        assert!(loading(libc::EINVAL, NOBODYS).contains("Linux 999.0 or newer"));
        assert!(!loading(libc::EINVAL, EVERYBODYS).contains("Linux"));
        // whatever the kernel's age
        for errno in [libc::EOPNOTSUPP, libc::ENOENT] {
            assert!(loading(errno, EVERYBODYS).contains("CONFIG_DEBUG_INFO_BTF"));
        }
        assert!(loading(libc::EPERM, NOBODYS).contains("sudo"));
    }

    #[test]
    fn what_is_no_loading_is_no_matter_of_the_kernels_age() {
        let refusal = libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
        let error = GuestError::from_libbpf("open a map", &refusal);
        assert!(matches!(error, GuestError::Kernel { .. }), "{error}");
    }
}
