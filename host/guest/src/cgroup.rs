//! Control groups of the unified hierarchy (cgroup2), to which programs at sockets are attached.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, ProgramMut};
use nix::sys::statfs::statfs;

use crate::error::{GuestError, Linux};

/// Mount points of the unified hierarchy: without version 1 hierarchies, or in addition to them.
const PLACES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The `f_type` of the unified hierarchy (linux/magic.h).
const CGROUP2_MAGIC: i64 = 0x6367_7270;
/// The `f_type` of a version 1 hierarchy.
const CGROUP1_MAGIC: i64 = 0x27_e0eb;

/// An open folder of the unified hierarchy.
#[derive(Debug)]
pub(crate) struct Cgroup(OwnedFd);

impl Cgroup {
    /// Opens the control group at `path`; with `None`, the root of the unified hierarchy.
    ///
    /// # Errors
    /// [`GuestError::NotACgroup`]; the path is a control group of version 1; no unified hierarchy is mounted.
    pub fn open(path: Option<&Path>) -> Result<Self, GuestError> {
        let path = match path {
            Some(path) => {
                check(path)?;
                path.to_owned()
            }
            None => hierarchy()?,
        };
        let action = || format!("open {}", path.display());
        let file = File::open(&path).map_err(|error| GuestError::from_kernel(action(), error))?;
        Ok(Self(file.into()))
    }

    /// Attaches a program to the sockets of processes in this control group and in groups below it.
    pub fn attach(&self, program: &ProgramMut<'_>, needed: Linux) -> Result<Link, GuestError> {
        let attached = program.attach_cgroup(self.0.as_raw_fd());
        let action = || format!("attach {}", program.name().to_string_lossy());
        attached.map_err(|error| GuestError::from_loading(action(), &error, needed))
    }
}

fn magic(path: &Path) -> Option<i64> {
    Some(statfs(path).ok()?.filesystem_type().0)
}

fn check(path: &Path) -> Result<(), GuestError> {
    match magic(path) {
        Some(CGROUP2_MAGIC) if path.is_dir() => Ok(()),
        Some(CGROUP1_MAGIC) => Err(GuestError::Other(format!(
            "{path} is a control group of version 1, which takes no programs for sockets; name the \
             group's folder in the unified hierarchy (cgroup2), or boot with \
             systemd.unified_cgroup_hierarchy=1",
            path = path.display()
        ))),
        _ => Err(GuestError::NotACgroup { path: path.into() }),
    }
}

/// Returns the mount point of the unified hierarchy of control groups (cgroup2).
///
/// # Errors
/// No unified hierarchy is mounted.
pub fn hierarchy() -> Result<PathBuf, GuestError> {
    let places = PLACES.map(Path::new);
    let found = places
        .into_iter()
        .find(|place| magic(place) == Some(CGROUP2_MAGIC));
    found.map(Path::to_owned).ok_or_else(|| {
        GuestError::Other(format!(
            "no unified hierarchy of control groups at {0}; mount one (mount -t cgroup2 none {0}), \
             or name another with --cgroup",
            PLACES[0]
        ))
    })
}
