//! The pins in bpffs. `/sys/fs/bpf/undercurrent-guest/<name>` keeps the congestion control of that name registered. A
//! pin's name has hyphens where the congestion control's has dots, because a BPF file system allows no dots; a
//! congestion control's name has no hyphens. `/sys/fs/bpf/undercurrent-groups/<name>/` contains the maps of the coupled
//! congestion controls of that name while at least one of them is registered. `/sys/fs/bpf/undercurrent-pvtcp/`
//! contains PVTCP's two programs and the maps of its state.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::statfs;

use crate::control::{check_beginning, check_name};
use crate::ctrltcp::{CouplingPolicy, Ctrltcp};
use crate::dctcp::Dctcp;
use crate::error::GuestError;
use crate::groups::Groups;
use crate::pvtcp::{LeastTimeout, LeastTimeoutState, Pvtcp};

/// The `f_type` of a BPF file system (linux/magic.h).
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// The folders in which this machine's loaded congestion controls are pinned.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    groups: PathBuf,
    pvtcp: PathBuf,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("/sys/fs/bpf/undercurrent-guest"),
            groups: PathBuf::from("/sys/fs/bpf/undercurrent-groups"),
            pvtcp: PathBuf::from("/sys/fs/bpf/undercurrent-pvtcp"),
        }
    }
}

impl Store {
    /// Registers DCTCP as `name`, until it is unloaded or the machine restarts.
    ///
    /// # Errors
    /// [`GuestError`]; nothing stays pinned then.
    pub fn load_dctcp(&self, name: &str) -> Result<(), GuestError> {
        check_name(name)?;
        check_bpffs(&self.folder)?;
        let mut dctcp = Dctcp::register(name)?;
        make(&self.folder)?;
        dctcp.pin(&self.pin_of(name))
    }

    /// Registers the coupled congestion controls `<name>tcp` and, if the kernel has CUBIC, `<name>cubic`. Returns the
    /// registered names.
    ///
    /// # Errors
    /// [`GuestError`]; nothing stays pinned then.
    pub fn load_ctrltcp(
        &self,
        name: &str,
        policy: &CouplingPolicy,
    ) -> Result<Vec<String>, GuestError> {
        check_beginning(name, Ctrltcp::LONGEST_ENDING)?;
        check_bpffs(&self.folder)?;
        let mut ctrltcp = Ctrltcp::register(name, policy)?;
        for folder in [&self.folder, &self.groups, &self.groups_of(name)] {
            make(folder)?;
        }
        let pinned = ctrltcp.pin(|name| self.pin_of(name), &self.groups_of(name));
        if let Err(error) = pinned {
            let _the_first_error_counts = Ctrltcp::names_of(name).map(|name| self.unload(&name));
            self.sweep()?;
            return Err(error);
        }
        let names = [Some(ctrltcp.name()), ctrltcp.cubic_name()];
        Ok(names.into_iter().flatten().map(str::to_owned).collect())
    }

    /// Returns the names that [`Self::load_ctrltcp`] loaded and that are still registered, sorted.
    ///
    /// # Errors
    /// [`GuestError`] if the folder can't be read.
    pub fn couplings(&self) -> Result<Vec<String>, GuestError> {
        names_in(&self.groups)
    }

    /// Returns the groups of the coupled congestion controls of that name.
    ///
    /// # Errors
    /// [`GuestError::NotLoaded`], or the kernel's refusal.
    pub fn groups(&self, name: &str) -> Result<Groups, GuestError> {
        check_name(name)?;
        let folder = self.groups_of(name);
        if !folder.exists() {
            return Err(GuestError::NotLoaded { name: name.into() });
        }
        Groups::pinned(&folder)
    }

    /// Returns the names of all loaded congestion controls, sorted.
    ///
    /// # Errors
    /// [`GuestError`] if the folder can't be read.
    pub fn names(&self) -> Result<Vec<String>, GuestError> {
        names_in(&self.folder)
    }

    /// Loads PVTCP: the minimum RTO of new connections follows the guest's stalls, in this control group and groups
    /// below it; everywhere if `cgroup` is `None`.
    ///
    /// # Errors
    /// [`GuestError`]; nothing stays pinned then.
    pub fn load_pvtcp(
        &self,
        policy: &LeastTimeout,
        cgroup: Option<&Path>,
    ) -> Result<(), GuestError> {
        check_bpffs(&self.folder)?;
        if self.pvtcp.exists() {
            return Err(GuestError::Other(format!(
                "{0} is loaded already; unload it first: uc guest unload {0}",
                Pvtcp::NAME
            )));
        }
        let mut pvtcp = Pvtcp::attach(policy, cgroup)?;
        make(&self.pvtcp)?;
        let pinned = pvtcp.pin(&self.pvtcp);
        if pinned.is_err() {
            let _the_first_error_counts = fs::remove_dir_all(&self.pvtcp);
        }
        pinned
    }

    /// Returns the state of PVTCP; `None` if it is not loaded.
    pub fn pvtcp(&self) -> Result<Option<LeastTimeoutState>, GuestError> {
        let there = self.pvtcp.exists();
        there.then(|| Pvtcp::state_at(&self.pvtcp)).transpose()
    }

    /// Removes PVTCP's programs. Connections keep their minimum RTOs.
    ///
    /// # Errors
    /// [`GuestError::NotLoaded`], or the kernel's refusal.
    pub fn unload_pvtcp(&self) -> Result<(), GuestError> {
        if !self.pvtcp.exists() {
            let name = Pvtcp::NAME.into();
            return Err(GuestError::NotLoaded { name });
        }
        fs::remove_dir_all(&self.pvtcp).map_err(|error| failed("remove", &self.pvtcp, error))
    }

    /// Unregisters the congestion control `name`. Connections that use it keep it.
    ///
    /// # Errors
    /// [`GuestError::NotLoaded`], or the kernel's refusal.
    pub fn unload(&self, name: &str) -> Result<(), GuestError> {
        check_name(name)?;
        let pin = self.pin_of(name);
        if let Ok(link) = libbpf_rs::Link::open(&pin) {
            // Detaches at once on Linux 6.11 and later; before, the kernel does so some time after
            // the pin is removed.
            let _goes_with_its_pin = link.detach();
        }
        match fs::remove_file(pin) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(GuestError::NotLoaded { name: name.into() });
            }
            other => other.map_err(|error| failed("remove a pin of", &self.folder, error))?,
        }
        self.sweep()?;
        // The folder is removed with its last pin; while others are in it, removal fails and it
        // stays.
        let _others_are_left = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// Removes the pinned groups of coupled congestion controls that are no longer registered.
    fn sweep(&self) -> Result<(), GuestError> {
        for name in self.couplings()? {
            let registered = Ctrltcp::names_of(&name);
            if registered.iter().any(|name| self.pin_of(name).exists()) {
                continue;
            }
            let folder = self.groups_of(&name);
            fs::remove_dir_all(&folder).map_err(|error| failed("remove", &folder, error))?;
        }
        let _others_are_left = fs::remove_dir(&self.groups);
        Ok(())
    }

    fn pin_of(&self, name: &str) -> PathBuf {
        self.folder.join(name.replace('.', "-"))
    }

    fn groups_of(&self, name: &str) -> PathBuf {
        self.groups.join(name.replace('.', "-"))
    }
}

/// Checks that this folder of pins, which need not exist yet, is within a BPF file system.
pub(crate) fn check_bpffs(folder: &Path) -> Result<(), GuestError> {
    let parent = folder.parent().unwrap_or(Path::new("/"));
    match statfs(parent) {
        Ok(status) if status.filesystem_type().0 == BPF_FS_MAGIC => Ok(()),
        _ => Err(GuestError::Other(format!(
            "no BPF file system at {path}; mount one: mount -t bpf bpf /sys/fs/bpf -o mode=700",
            path = parent.display()
        ))),
    }
}

/// Creates a folder for pins unless it exists.
pub(crate) fn make(folder: &Path) -> Result<(), GuestError> {
    make_for(folder, 0o777)
}

/// Creates a folder with these mode bits, reduced by the process's umask, unless it exists.
pub(crate) fn make_for(folder: &Path, mode: u32) -> Result<(), GuestError> {
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(failed("make the folder", folder, error))
        }
        _ => Ok(()),
    }
}

/// Returns the names of the congestion controls that are pinned in a folder, sorted; none if there is no folder.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, GuestError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| failed("look into", folder, error))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed("look into", folder, error))?;
        names.push(entry.file_name().to_string_lossy().replace('-', "."));
    }
    names.sort();
    Ok(names)
}

pub(crate) fn failed(action: &str, place: &Path, error: io::Error) -> GuestError {
    GuestError::from_kernel(format!("{action} {}", place.display()), error)
}
