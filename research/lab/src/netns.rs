//! Anonymous network namespaces.
//!
//! A namespace lives as long as something refers to it: here one descriptor of this process. It has
//! no name, nothing of it is pinned or mounted, and so the kernel removes it with everything in it
//! (interfaces, bridges, taps, attached programs) however the process ends: return, panic or
//! SIGKILL. Sockets that outlive their process would hold it, see [`crate::traffic`] on lingering.
//! Read first: network_namespaces(7), setns(2).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::LabError;
use crate::stack::asks_for_less_than_rack;

/// A network namespace that only a descriptor keeps alive.
#[derive(Debug, Clone)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
    node: String,
}

impl Namespace {
    /// Creates a new, empty namespace. `node` names its owner in errors.
    ///
    /// # Errors
    /// [`LabError::Namespace`] without CAP_SYS_ADMIN, or when descriptors or threads run out.
    pub fn new(node: impl Into<String>) -> Result<Self, LabError> {
        // unshare moves the calling thread, so use one that ends at once.
        let made = on_a_thread(|| -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        })?;
        let file = made.map_err(|source| LabError::Namespace {
            action: "making",
            source,
        })?;
        Ok(Self {
            fd: Arc::new(file.into()),
            node: node.into(),
        })
    }

    /// Opens the namespace of the calling thread.
    ///
    /// # Errors
    /// [`LabError::Namespace`] when it can't be opened.
    pub fn here(node: impl Into<String>) -> Result<Self, LabError> {
        let file = File::open("/proc/thread-self/ns/net");
        let file = file.map_err(|source| LabError::Namespace {
            action: "opening",
            source,
        })?;
        Ok(Self {
            fd: Arc::new(file.into()),
            node: node.into(),
        })
    }

    /// Returns the owner of the namespace, for messages.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns a path that names this namespace for other programs while this process lives, for
    /// example for `ip link set … netns <path>`.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.fd.as_raw_fd()
        ))
    }

    /// Runs `f` on a new thread inside the namespace and waits for it. The calling thread stays in
    /// its namespace. A panic of `f` continues in the caller.
    ///
    /// # Errors
    /// [`LabError::Namespace`] when the thread cannot enter.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        on_a_thread(|| {
            setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|errno| {
                LabError::Namespace {
                    action: "entering",
                    source: errno.into(),
                }
            })?;
            Ok(f())
        })?
    }

    /// Creates a command whose process will run inside the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        use std::os::unix::process::CommandExt;
        let fd = Arc::clone(&self.fd);
        let mut command = Command::new(program);
        // SAFETY: between fork and exec the closure makes one async-signal-safe system call
        // (setns) on a descriptor that it keeps open itself; it allocates nothing.
        unsafe {
            command.pre_exec(move || {
                setns(fd.as_fd(), CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
            });
        }
        command
    }

    /// Writes sysctls inside the namespace, in order, and reads each one back.
    ///
    /// # Errors
    /// [`LabError::Refused`] before anything is written if the settings ask for SACK without RACK and the kernel has
    /// only both, and if a key holds something else after it was written; [`LabError::Sysctl`] when a key is missing or
    /// refuses the value.
    pub fn set_sysctls(&self, settings: &[(&str, String)]) -> Result<(), LabError> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if asks_for_less_than_rack(settings, &release) {
            return Err(LabError::Refused(format!(
                "the stack of {node} has sack without rack, and Linux {release} has RACK in every \
                 flow with SACK, as all kernels since 6.17; leave out `rack = false`, or set `sack \
                 = false`, or run it on machines with an older kernel (--on vm)",
                node = self.node,
                release = release.trim()
            )));
        }
        self.enter(|| {
            settings
                .iter()
                .try_for_each(|(key, value)| self.set_sysctl(key, value))
        })?
    }

    /// Writes one sysctl. The calling thread must be inside: /proc/sys/net shows the namespace of
    /// the thread that opens it.
    fn set_sysctl(&self, key: &str, value: &str) -> Result<(), LabError> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        let failed = |source: io::Error| LabError::Sysctl {
            key: key.into(),
            value: value.into(),
            node: self.node.clone(),
            mend: match source.kind() {
                io::ErrorKind::NotFound => "this kernel lacks the setting",
                _ => "the kernel refuses the value, change the stack in the experiment",
            },
            source,
        };
        fs::write(&path, value).map_err(failed)?;
        let found = fs::read_to_string(&path).map_err(failed)?;
        if found.split_whitespace().eq(value.split_whitespace()) {
            return Ok(());
        }
        Err(LabError::Refused(format!(
            "{key} in the namespace of {node} reads \"{found}\" after \"{value}\" was written; \
             this kernel does not accept the value, change the stack in the experiment",
            found = found.split_whitespace().collect::<Vec<_>>().join(" "),
            node = self.node
        )))
    }
}

/// Runs `f` on a thread of its own and returns its result, or continues its panic.
fn on_a_thread<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    thread::scope(|scope| {
        let handle = thread::Builder::new()
            .name("uc-netns".into())
            .spawn_scoped(scope, f)
            .map_err(|source| LabError::Resource {
                action: "start a thread",
                source,
            })?;
        handle
            .join()
            .map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}
