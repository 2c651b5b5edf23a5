//! Errors of a guest's congestion controls, and their remedies.

use std::fmt;
use std::io;
use std::path::PathBuf;

use libbpf_rs::ErrorKind;
use uc_port::KernelError;

/// Errors of this crate. Each names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The host, a control group or a congestion control does not allow it; the message names the remedy.
    #[error("{0}")]
    Other(String),
    /// The process may not load BPF programs.
    #[error(
        "may not {action}: this needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; \
         run it with sudo"
    )]
    NotPermitted {
        /// The operation that failed.
        action: String,
    },
    /// The kernel can't load BPF congestion controls.
    #[error(
        "this kernel can't {action} ({source}); it needs CONFIG_BPF_JIT, CONFIG_DEBUG_INFO_BTF and \
         Linux {needed} or newer"
    )]
    NoKernelSupport {
        /// The operation that failed.
        action: String,
        /// First kernel version that can load BPF congestion controls.
        needed: Linux,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel has a congestion control of that name.
    #[error(
        "a congestion control '{name}' exists already; choose another name, or unload the other \
         by the program that loaded it"
    )]
    NameTaken {
        /// The name in use.
        name: String,
    },
    /// A name that the kernel does not accept.
    #[error("'{name}' can't name a congestion control: 1 to {most} letters, digits, '_' and '.'")]
    BadName {
        /// The rejected name.
        name: String,
        /// Maximum length; less than the kernel's if an ending is appended.
        most: usize,
    },
    /// The path is no control group.
    #[error(
        "{path} is no folder of a control group of the unified hierarchy (cgroup2), such as \
         /sys/fs/cgroup/system.slice/docker-ID.scope; `cat /proc/PID/cgroup` prints a container's \
         below the hierarchy's mount point"
    )]
    NotACgroup {
        /// Path that the user gave.
        path: PathBuf,
    },
    /// The control group, or one within it or around it, is tuned already.
    #[error("{path} can't be tuned: {other} is; remove that first: uc tune {other} --remove")]
    Tuned {
        /// Path that the user gave.
        path: PathBuf,
        /// Path of the group that is tuned.
        other: PathBuf,
    },
    /// No congestion control of that name was loaded through the store.
    #[error(
        "no congestion control '{name}' was loaded by `uc guest load`; `uc guest list` shows those \
         that were"
    )]
    NotLoaded {
        /// The requested name.
        name: String,
    },
    /// A weight, priority or TCP port that is 0.
    #[error("{number} is not a weight, priority or port; weights and priorities are 1 to 255")]
    BadWeight {
        /// The rejected number.
        number: u8,
    },
    /// Any other error of the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// A kernel version: 6.4 is `Linux(6, 4)`.
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

    /// Returns whether the running kernel is older than this version.
    fn is_missing(self) -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::of_release(&release).is_some_and(|found| found < self)
    }
}

impl GuestError {
    /// Classifies the kernel's refusal of `action` by its remedy.
    pub(crate) fn from_kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action },
            _ => KernelError::new(action, source).into(),
        }
    }

    /// Classifies an error of libbpf-rs, which hides its errno in a kind, by its remedy.
    pub(crate) fn from_libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        let action = action.into();
        match source.kind() {
            ErrorKind::PermissionDenied => Self::NotPermitted { action },
            _ => KernelError::libbpf(action, source).into(),
        }
    }

    /// Classifies an error of loading or attaching programs that need kernel `needed`. An older
    /// kernel's own error does not mention its version.
    pub(crate) fn from_loading(
        action: impl Into<String>,
        source: &libbpf_rs::Error,
        needed: Linux,
    ) -> Self {
        // Something that the kernel was built without. (libbpf-rs has no kind for ESRCH, a type
        // that is missing in the kernel's BTF: that error is reported as it is.)
        let lacks = matches!(source.kind(), ErrorKind::Unsupported | ErrorKind::NotFound);
        match Self::from_libbpf(action, source) {
            Self::Kernel(KernelError { action, source }) if lacks || needed.is_missing() => {
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
    fn releases_are_compared_by_numbers_and_invalid_ones_are_unknown() {
        let first = Some(Linux(6, 4));
        assert!(Linux::of_release("5.10.0-46-amd64") < first);
        assert!(Linux::of_release("6.1.0-56-amd64") < first);
        assert!(Linux::of_release("6.12.117+deb13-amd64") > first);
        assert_eq!(Linux::of_release("unknown"), None);
    }

    #[test]
    fn the_needed_version_is_named_only_if_the_kernel_is_older() {
        assert!(loading(libc::EINVAL, NOBODYS).contains("Linux 999.0 or newer"));
        assert!(!loading(libc::EINVAL, EVERYBODYS).contains("Linux"));
        // The kernel's age does not matter here.
        for errno in [libc::EOPNOTSUPP, libc::ENOENT] {
            assert!(loading(errno, EVERYBODYS).contains("CONFIG_DEBUG_INFO_BTF"));
        }
        assert!(loading(libc::EPERM, NOBODYS).contains("sudo"));
    }

    #[test]
    fn an_error_other_than_loading_does_not_name_a_kernel_version() {
        let refusal = libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
        let error = GuestError::from_libbpf("open a map", &refusal);
        assert!(matches!(error, GuestError::Kernel { .. }), "{error}");
    }
}
