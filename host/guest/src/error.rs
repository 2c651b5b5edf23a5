//! Errors of a guest's congestion controls, and their remedies.

use std::fmt;
use std::io;
use std::path::PathBuf;

use libbpf_rs::ErrorKind;
use uc_port::KernelError;

/// Errors of this crate. Each error's message names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The host, a control group or a congestion control does not allow the operation; the message names the remedy.
    #[error("{0}")]
    Other(String),
    /// The process may not load BPF programs.
    #[error(
        "may not {action}: this needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; \
         run it with sudo"
    )]
    NotPermitted {
        /// Operation that failed, such as `load a program`.
        action: String,
    },
    /// The kernel can't load these BPF programs: it is too old, or was built without what they need.
    #[error(
        "this kernel can't {action} ({source}); it needs CONFIG_BPF_JIT, CONFIG_DEBUG_INFO_BTF and \
         Linux {needed} or newer"
    )]
    NoKernelSupport {
        /// Operation that failed, such as `load a program`.
        action: String,
        /// First kernel version that can load the programs.
        needed: Linux,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A congestion control of the requested name exists already.
    #[error(
        "a congestion control '{name}' exists already; choose another name, or unload the other \
         by the program that loaded it"
    )]
    NameTaken {
        /// Name that the existing congestion control has.
        name: String,
    },
    /// The kernel does not accept this name for a congestion control.
    #[error("'{name}' can't name a congestion control: 1 to {most} letters, digits, '_' and '.'")]
    BadName {
        /// Name that was refused.
        name: String,
        /// Maximum length in characters; less than the kernel's if an ending is appended to the name.
        most: usize,
    },
    /// The path is no control group.
    #[error(
        "{path} is not the folder of a control group of the unified hierarchy (cgroup2), such as \
         /sys/fs/cgroup/system.slice/docker-ID.scope; `cat /proc/PID/cgroup` prints a container's \
         below the hierarchy's mount point"
    )]
    NotACgroup {
        /// Path that the user gave.
        path: PathBuf,
    },
    /// The control group is tuned already, or a group within it or around it is.
    #[error(
        "{path} can't be tuned while {other} is, because one contains the other or they are the \
         same; \
             remove the tuning first: uc tune {other} --remove"
    )]
    Tuned {
        /// Path of the control group that the user gave.
        path: PathBuf,
        /// Path of the control group that is tuned.
        other: PathBuf,
    },
    /// No congestion control of that name was loaded through the store.
    #[error(
        "no congestion control '{name}' was loaded by `uc guest load`; `uc guest list` shows those \
         that were"
    )]
    NotLoaded {
        /// Name that was asked for.
        name: String,
    },
    /// A weight, a priority or a TCP port is 0.
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

    /// Returns whether the running kernel is older than this version; false if its version is unknown.
    fn is_missing(self) -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::of_release(&release).is_some_and(|found| found < self)
    }
}

impl GuestError {
    /// Chooses the error for the kernel's refusal of `action`: [`GuestError::NotPermitted`] for missing rights,
    /// otherwise [`GuestError::Kernel`].
    pub(crate) fn from_kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action },
            _ => KernelError::new(action, source).into(),
        }
    }

    /// Chooses the error for libbpf's failure to do `action`: [`GuestError::NotPermitted`] for missing rights,
    /// otherwise [`GuestError::Kernel`].
    pub(crate) fn from_libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        let action = action.into();
        match source.kind() {
            ErrorKind::PermissionDenied => Self::NotPermitted { action },
            _ => KernelError::libbpf(action, source).into(),
        }
    }

    /// Chooses the error for a failure to load or attach programs that need the kernel version `needed`: as
    /// [`Self::from_libbpf`], or [`GuestError::NoKernelSupport`] if the kernel is older or lacks a feature. An older
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
