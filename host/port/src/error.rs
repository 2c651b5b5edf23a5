//! What can go wrong at a port, and what the operator can do about it.

use std::path::PathBuf;

/// Errors of this crate. Each names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The interface is not there.
    #[error("no interface '{name}' here; `ip link` lists those of this network namespace")]
    NoInterface {
        /// As the user wrote it.
        name: String,
    },
    /// The process may not load BPF programs.
    #[error(
        "may not {action}: this needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; \
         run it with sudo"
    )]
    NotPermitted {
        /// What was tried.
        action: String,
    },
    /// The kernel has no usable BPF.
    #[error(
        "this kernel can't {action} ({source}); it needs CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_ACT \
         and Linux 5.10 or newer"
    )]
    NoKernelSupport {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The kernel's verifier refused a program.
    #[error(
        "kernel {kernel} refused the program '{program}' ({said}); no right is missing, this \
         version doesn't run on this kernel: take another of either"
    )]
    Refused {
        /// As bpf/ calls it.
        program: String,
        /// The kernel's release.
        kernel: String,
        /// The last that its verifier said of it.
        said: String,
    },
    /// There is no bpffs at the place of the pins.
    #[error("no BPF file system at {path}; mount one: mount -t bpf bpf /sys/fs/bpf")]
    NoBpffs {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The port is attached already.
    #[error("'{name}' is attached already; `uc detach {name}` first")]
    AlreadyAttached {
        /// Interface.
        name: String,
    },
    /// The port is not attached.
    #[error("'{name}' is not attached; `uc flows` shows the ports that are")]
    NotAttached {
        /// Interface.
        name: String,
    },
    /// What is pinned was left by a version whose maps this one can't read.
    #[error(
        "what is pinned in {path} is another version's; `uc agent --once`, or `uc attach` of any \
         port, has this version take the ports over, and flows under way pass; \
         `uc detach --all` takes it away"
    )]
    OtherVersion {
        /// The store.
        path: PathBuf,
    },
    /// A port's plan is too long.
    #[error(
        "{rules} rules for port {ifindex}: the programs look at {max} at most; say more of them by \
         one prefix or range",
        max = uc_core::rule::RULES_MAX
    )]
    TooManyRules {
        /// Interface index.
        ifindex: u32,
        /// How many it has.
        rules: usize,
    },
    /// The programs' tables of ports are full.
    #[error("{max} ports have a plan, and there is room for no more; detach some", max = crate::PORTS_MAX)]
    TooManyPorts,
    /// Anything else that the kernel refused.
    #[error("could not {action}: {source}")]
    Kernel {
        /// What was tried, and on what.
        action: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl PortError {
    /// The kernel's refusal of `action`, sorted by what the operator can do about it.
    pub(crate) fn from_kernel(action: impl Into<String>, source: std::io::Error) -> PortError {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PortError::NotPermitted { action },
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => PortError::NoKernelSupport { action, source },
            _ => PortError::Kernel { action, source },
        }
    }

    /// Makes an error of one of libbpf-rs, which hides its errno in a kind.
    pub(crate) fn from_libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> PortError {
        let action = action.into();
        let text = std::io::Error::other(format!("{source:#}"));
        match source.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => PortError::NotPermitted { action },
            libbpf_rs::ErrorKind::Unsupported => PortError::NoKernelSupport {
                action,
                source: text,
            },
            _ => PortError::Kernel {
                action,
                source: text,
            },
        }
    }
}
