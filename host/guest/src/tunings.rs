//! The tunings of this host. `/sys/fs/bpf/undercurrent-tune/<id>/` contains the program's link and the maps of its
//! state. `<id>` has the control group's inode number: a new group at the same path has another one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::error::GuestError;
use crate::store::{check_bpffs, failed, make_for, names_in};
use crate::tune::{Tuned, Tuning, TuningState};

/// Mode bits of the folders: a user who could open them could also lock them.
const ROOT_ONLY: u32 = 0o700;

/// The pinned tunings of this host, in one folder of bpffs.
#[derive(Clone, Debug)]
pub struct Tunings {
    folder: PathBuf,
}

impl Default for Tunings {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("/sys/fs/bpf/undercurrent-tune"),
        }
    }
}

impl Tunings {
    /// Tunes the new connections of processes in a control group and in groups below it, until the tuning is removed,
    /// the group ends or the machine restarts. Returns the group's path.
    ///
    /// # Errors
    /// [`GuestError`]; nothing stays pinned then.
    pub fn add(&self, cgroup: &Path, tuning: &Tuning) -> Result<String, GuestError> {
        self.pin(cgroup, tuning, false)
    }

    /// Tunes a control group as [`Tunings::add`] does, and marks the tuning as one that a policy wants.
    ///
    /// # Errors
    /// As [`Tunings::add`].
    pub fn add_by_policy(&self, cgroup: &Path, tuning: &Tuning) -> Result<String, GuestError> {
        self.pin(cgroup, tuning, true)
    }

    fn pin(&self, cgroup: &Path, tuning: &Tuning, by_policy: bool) -> Result<String, GuestError> {
        tuning.check()?;
        let path = fs::canonicalize(cgroup).map_err(|_| GuestError::NotACgroup {
            path: cgroup.into(),
        })?;
        let path = path.as_path();
        check_bpffs(&self.folder)?;
        // Refuses a folder that is no control group before anything is made.
        let mut tuned = Tuned::attach(tuning, path)?;
        make_for(&self.folder, ROOT_ONLY)?;
        let _lock = self.lock()?;
        let pinned = self.check_alone(path).and_then(|()| {
            let folder = self.folder_of(path)?;
            // The same group by another path, or a mount of it elsewhere.
            if folder.exists() {
                return Err(GuestError::Tuned {
                    path: path.into(),
                    other: path.into(),
                });
            }
            make_for(&folder, ROOT_ONLY)?;
            let pinned = tuned.pin(&folder, by_policy);
            if pinned.is_err() {
                let _the_first_error_counts = fs::remove_dir_all(&folder);
            }
            pinned
        });
        if pinned.is_err() {
            self.leave();
        }
        pinned.map(|()| path.display().to_string())
    }

    /// Removes the tuning of a control group, and returns the group's path. Existing connections keep their settings.
    ///
    /// # Errors
    /// The group is not tuned, or the kernel's refusal.
    pub fn remove(&self, cgroup: &Path) -> Result<String, GuestError> {
        let path = fs::canonicalize(cgroup).unwrap_or_else(|_| cgroup.to_owned());
        let not_tuned = || {
            GuestError::Other(format!(
                "{path} is not tuned; `uc tune --status` shows those that are",
                path = cgroup.display()
            ))
        };
        if !self.folder.exists() {
            return Err(not_tuned());
        }
        let _lock = self.lock()?;
        let all = self.read_all()?.into_iter();
        let mut found = all.filter(|(_, state)| Path::new(&state.cgroup) == path);
        let (folder, state) = found.next().ok_or_else(not_tuned)?;
        remove(&folder)?;
        self.leave();
        Ok(state.cgroup)
    }

    /// Returns all tunings, sorted by path. Removes the remains of tunings whose control groups have ended.
    pub fn all(&self) -> Result<Vec<TuningState>, GuestError> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let mut all: Vec<TuningState> = Vec::new();
        for (folder, state) in self.read_all()? {
            if self.has_ended(&folder, &state) {
                remove(&folder)?;
            } else {
                all.push(state);
            }
        }
        self.leave();
        all.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
        Ok(all)
    }

    /// Refuses a control group if it, a group around it or a group within it is tuned already: of two programs at a
    /// socket the outer one would win.
    fn check_alone(&self, path: &Path) -> Result<(), GuestError> {
        for (folder, state) in self.read_all()? {
            let other = Path::new(&state.cgroup);
            if self.has_ended(&folder, &state) {
                remove(&folder)?;
            } else if path.starts_with(other) || other.starts_with(path) {
                return Err(GuestError::Tuned {
                    path: path.into(),
                    other: other.into(),
                });
            }
        }
        Ok(())
    }

    /// Returns every tuning with its folder of pins, also those of control groups that have ended. Removes a folder
    /// whose creator was killed before it had all pins.
    fn read_all(&self) -> Result<Vec<(PathBuf, TuningState)>, GuestError> {
        let mut all = Vec::new();
        for name in names_in(&self.folder)? {
            let folder = self.folder.join(name);
            match Tuned::state_at(&folder) {
                Ok(state) => all.push((folder, state)),
                Err(_) if !Tuned::is_whole(&folder) => remove(&folder)?,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Returns whether the control group of this tuning has ended: its path is gone, or belongs to another group now.
    /// The link can't show this, because sockets keep an ended group alive.
    fn has_ended(&self, folder: &Path, state: &TuningState) -> bool {
        let own = self.folder_of(Path::new(&state.cgroup));
        own.map_or(true, |own| own != folder)
    }

    /// Returns the folder of pins for a control group's tuning.
    fn folder_of(&self, cgroup: &Path) -> Result<PathBuf, GuestError> {
        let meta = fs::metadata(cgroup).map_err(|error| failed("look at", cgroup, error))?;
        Ok(self.folder.join(format!("cgroup{}", meta.ino())))
    }

    /// Takes the lock of the tunings' folder; waits while another process changes tunings.
    fn lock(&self) -> Result<Flock<File>, GuestError> {
        let open = File::open(&self.folder).map_err(|error| failed("open", &self.folder, error))?;
        let locked = Flock::lock(open, FlockArg::LockExclusive);
        locked.map_err(|(_, errno)| failed("lock", &self.folder, io::Error::from(errno)))
    }

    /// Removes the folder of all tunings if none is left.
    fn leave(&self) {
        let _others_are_left = fs::remove_dir(&self.folder);
    }
}

fn remove(folder: &Path) -> Result<(), GuestError> {
    Tuned::detach_at(folder);
    fs::remove_dir_all(folder).map_err(|error| failed("remove", folder, error))
}
