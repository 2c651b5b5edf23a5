//! Errors at a port, and their remedies.

use std::path::PathBuf;

use uc_files::FileError;

use crate::carried::Upgrade;
use crate::kernel_error::KernelError;
use crate::layout::UC_PORTS_MAX;
use crate::memory::MemoryLimit;

/// Errors of this crate. Each names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The port, the host or a file does not allow the operation; the message names the remedy.
    #[error("{0}")]
    Other(String),
    /// The process may not load BPF programs.
    #[error(
        "may not {action}: this needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; \
         run it with sudo"
    )]
    NotPermitted {
        /// Operation that failed, such as `load the programs`.
        action: String,
    },
    /// The kernel lacks a BPF feature that the operation needs.
    #[error(
        "this kernel can't {action} ({source}); it needs CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_ACT \
         and Linux 5.10 or newer"
    )]
    NoKernelSupport {
        /// Operation that failed, such as `load the programs`.
        action: String,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// The kernel's verifier rejected a program.
    #[error(
        "kernel {kernel}: verifier rejected program '{program}' ({said}{}{place}); permissions suffice: \
         use another kernel or release",
        if place.is_empty() { "" } else { ", at: " }
    )]
    Refused {
        /// Name of the rejected program in bpf/port/.
        program: String,
        /// Release of the kernel, as `uname -r` prints it.
        kernel: String,
        /// The last line of the verifier's log.
        said: String,
        /// The line of the source that the log names last; empty if it names none.
        place: String,
    },
    /// No bpffs is mounted where pins belong.
    #[error("no BPF file system at {path}; mount one: mount -t bpf bpf /sys/fs/bpf -o mode=700")]
    NoBpffs {
        /// Path where the BPF file system was expected.
        path: PathBuf,
    },
    /// A folder of pins or locks is writable by other users, or a lock can't be taken.
    #[error(transparent)]
    File(FileError),
    /// The port has the programs already.
    #[error("'{name}' is attached already; run `uc detach {name}` first")]
    AlreadyAttached {
        /// Name of the port's interface.
        name: String,
    },
    /// The port does not have the programs.
    #[error("'{name}' is not attached; `uc flows` shows the ports that are")]
    NotAttached {
        /// Name of the port's interface.
        name: String,
    },
    /// A port was not attached. Before that, an upgrade had given all ports this version's programs.
    #[error("{source}; all ports have this version's programs now{losses}")]
    AfterUpgrade {
        /// Why a port was not attached.
        source: Box<PortError>,
        /// Text that names what the upgrade lost, each item after a semicolon; empty: nothing.
        losses: String,
    },
    /// A port of another network namespace has the same interface index in the same folder of pins.
    #[error(
        "port {ifindex}: a port of another network namespace has the same interface index, and its \
         programs are pinned in {} too; give this namespace a BPF file system of its own (`ip netns \
         exec`, or mount -t bpf bpf /sys/fs/bpf -o mode=700 after unshare -m), or detach the other \
         port there",
        folder.display()
    )]
    IndexTaken {
        /// Index of the port's interface.
        ifindex: u32,
        /// The folder of the pins.
        folder: PathBuf,
    },
    /// A port's plan has too many rules.
    #[error(
        "port {ifindex}: {rules} rules, the limit is {max}; merge some into wider prefixes or port \
         ranges",
        max = uc_core::rule::RULES_MAX
    )]
    TooManyRules {
        /// Index of the port's interface.
        ifindex: u32,
        /// Number of rules in the port's plan.
        rules: usize,
    },
    /// The programs' tables of ports are full.
    #[error("{max} ports have a plan, which is the limit; detach some", max = UC_PORTS_MAX)]
    TooManyPorts,
    /// The kernel has no memory for the maps.
    #[error(
        "could not {action}: no memory for maps of about {asked_mb} MB{}; give a smaller flow table \
         (--flows-max, agent.flows_max){}",
        .limit.as_ref().map_or_else(String::new, |limit| format!(" ({limit})")),
        if .limit.is_some() { ", or raise that limit" } else { "" }
    )]
    NoMemory {
        /// Operation that failed, such as `load the programs`.
        action: String,
        /// Memory of the tables of flows and events, in MB.
        asked_mb: u64,
        /// The memory limit of a control group under which least memory was left; `None` if there was none.
        limit: Option<MemoryLimit>,
    },
    /// Any other error of the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl From<FileError> for PortError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { action, source } => Self::from_kernel(action, source),
            error => Self::File(error),
        }
    }
}

impl PortError {
    /// Returns the error together with what an upgrade has changed before it; the error alone if the upgrade changed
    /// nothing.
    pub(crate) fn after(self, upgrade: &Upgrade) -> PortError {
        if matches!(upgrade, Upgrade::Fresh | Upgrade::Current) {
            return self;
        }
        let losses = upgrade.losses();
        PortError::AfterUpgrade {
            source: Box::new(self),
            losses: losses.iter().map(|loss| format!("; {loss}")).collect(),
        }
    }

    /// Classifies the kernel's refusal of `action` by its remedy.
    pub(crate) fn from_kernel(action: impl Into<String>, source: std::io::Error) -> PortError {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PortError::NotPermitted { action },
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => PortError::NoKernelSupport { action, source },
            _ => KernelError::new(action, source).into(),
        }
    }

    /// Classifies an error of libbpf-rs, which hides its errno in a kind, by its remedy.
    pub(crate) fn from_libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> PortError {
        let action = action.into();
        let kind = match source.kind() {
            libbpf_rs::ErrorKind::OutOfMemory => std::io::ErrorKind::OutOfMemory,
            _ => std::io::ErrorKind::Other,
        };
        let text = std::io::Error::new(kind, format!("{source:#}"));
        match source.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => PortError::NotPermitted { action },
            libbpf_rs::ErrorKind::Unsupported => PortError::NoKernelSupport {
                action,
                source: text,
            },
            _ => KernelError::new(action, text).into(),
        }
    }
}
