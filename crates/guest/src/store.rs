//! What is pinned in bpffs: `/sys/fs/bpf/undercurrent-guest/<name>` is the registration of the
//! congestion control of that name, where a dot is written as a hyphen: a BPF file system has no dots,
//! and a congestion control no hyphens.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::statfs::statfs;

use crate::control::check_name;
use crate::dctcp::Dctcp;
use crate::error::GuestError;

/// f_type of a BPF file system (linux/magic.h).
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// The folder of one machine's pins.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("/sys/fs/bpf/undercurrent-guest"),
        }
    }
}

impl Store {
    /// Registers DCTCP as `name`, until it is unloaded or the machine restarts.
    ///
    /// # Errors
    /// [`GuestError`]; nothing is left then.
    pub fn load_dctcp(&self, name: &str) -> Result<(), GuestError> {
        check_name(name)?;
        self.check_bpffs()?;
        let mut dctcp = Dctcp::register(name)?;
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.failed("make the folder", error));
            }
            _ => {}
        }
        dctcp.pin(&self.pin_of(name))
    }

    /// The names that were loaded, sorted.
    ///
    /// # Errors
    /// [`GuestError`] when the folder can't be read.
    pub fn names(&self) -> Result<Vec<String>, GuestError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| self.failed("look into", error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.failed("look into", error))?;
            names.push(entry.file_name().to_string_lossy().replace('-', "."));
        }
        names.sort();
        Ok(names)
    }

    /// Takes `name` off the kernel's list. Connections that have it keep it.
    ///
    /// # Errors
    /// [`GuestError::NotLoaded`], or the kernel's refusal.
    pub fn unload(&self, name: &str) -> Result<(), GuestError> {
        check_name(name)?;
        match fs::remove_file(self.pin_of(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(GuestError::NotLoaded { name: name.into() });
            }
            other => other.map_err(|error| self.failed("remove a pin of", error))?,
        }
        // Goes with the last of them; while others are in it, it stays.
        let _others_are_left = fs::remove_dir(&self.folder);
        Ok(())
    }

    fn pin_of(&self, name: &str) -> PathBuf {
        self.folder.join(name.replace('.', "-"))
    }

    fn check_bpffs(&self) -> Result<(), GuestError> {
        let parent = self.folder.parent().unwrap_or(Path::new("/"));
        match statfs(parent) {
            Ok(status) if status.filesystem_type().0 == BPF_FS_MAGIC => Ok(()),
            _ => Err(GuestError::NoBpffs {
                path: parent.to_owned(),
            }),
        }
    }

    fn failed(&self, action: &str, error: io::Error) -> GuestError {
        GuestError::from_kernel(format!("{action} {}", self.folder.display()), error)
    }
}
