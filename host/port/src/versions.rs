//! Pinned versions of the programs and of their maps' layout. An upgrade pins the new version
//! beside the old one, swaps the programs of every port, and removes the old version. After a kill
//! in between, ports of both versions work, and the next upgrade finishes.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::{MapHandle, Program};
use uc_core::{Law, LawRow};

use crate::direction::Direction;
use crate::error::PortError;
use crate::leftovers::unless_missing;
use crate::maps::Maps;
use crate::numbers::LAYOUT;
use crate::object::ProgramObject;
use crate::programs::{Code, LAWS, Programs, is_own_layout, laws_in};
use crate::refusal::silence_libbpf;
use crate::store::Store;

/// The pins of one version of the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Number of the version; the highest is in force.
    number: u32,
    /// Hash of the layout of this version's maps.
    layout: u64,
    /// Hash of the object file that the programs were loaded from.
    build: u64,
}

impl Version {
    fn own(number: u32, object: &ProgramObject) -> Version {
        Version {
            number,
            layout: LAYOUT,
            build: object.build,
        }
    }

    fn parse(name: &str) -> Option<Version> {
        let mut parts = name.strip_prefix("programs-")?.split('-');
        let number = parts.next()?.parse().ok()?;
        let mut hexadecimal = || u64::from_str_radix(parts.next()?, 16).ok();
        Some(Version {
            number,
            layout: hexadecimal()?,
            build: hexadecimal()?,
        })
    }

    fn folder(&self) -> String {
        let Version {
            number,
            layout,
            build,
        } = self;
        format!("programs-{number}-{layout:016x}-{build:016x}")
    }

    fn state(&self) -> String {
        format!("maps-{:016x}", self.layout)
    }

    /// Returns whether this build can read the maps.
    pub(crate) fn is_own_layout(&self) -> bool {
        self.layout == LAYOUT
    }

    /// Returns whether these programs were loaded from this object.
    pub(crate) fn is_of(&self, object: &ProgramObject) -> bool {
        self.is_own_layout() && self.build == object.build
    }
}

impl Store {
    /// Returns the version in force: the highest one that is complete.
    pub(crate) fn version(&self) -> Result<Option<Version>, PortError> {
        let names = self.folders()?;
        let versions = names.iter().filter_map(|name| Version::parse(name));
        let mut highest: Option<Version> = None;
        for version in versions {
            let is_whole = self.is_whole(&version.folder(), LAST_PROGRAM)?
                && self.is_whole(&version.state(), LAST_MAP)?;
            if is_whole
                && highest
                    .as_ref()
                    .is_none_or(|other| other.number < version.number)
            {
                highest = Some(version);
            }
        }
        Ok(highest)
    }

    /// Returns whether a folder has the pin that is made last.
    fn is_whole(&self, folder: &str, last: &str) -> Result<bool, PortError> {
        let exists = self.folder.join(folder).join(last).try_exists();
        exists.map_err(|error| PortError::from_kernel(self.action("look into"), error))
    }

    /// Returns the names of all entries of the store; none if it does not exist.
    pub(crate) fn folders(&self) -> Result<Vec<String>, PortError> {
        // The file system, or the folder, may be readable by root only.
        let failed = |error| PortError::from_kernel(self.action("look into"), error);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(failed)?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// Reopens a version, whose maps must have this build's layout.
    pub(crate) fn open_version(&self, version: &Version) -> Result<Programs, PortError> {
        silence_libbpf();
        let maps = Maps::from_each(|name| self.map_of(version, name))?;
        if !is_own_layout(&maps.cursors) {
            return Err(self.other_version());
        }
        let code = self.folder.join(version.folder());
        let tail_calls = MapHandle::from_pinned_path(code.join("tail_calls"));
        let tail_calls = tail_calls.map_err(|error| self.not_reopened(&error))?;
        let program = |name: &str| self.program_of(version, name);
        let programs = Programs {
            code: Code::from_parts(program, tail_calls, self.laws_pin(version)?)?,
            maps,
        };
        Law::tell_outside(&programs.laws());
        Ok(programs)
    }

    /// Opens a map of a version, whatever its layout.
    pub(crate) fn map_of(&self, version: &Version, name: &str) -> Result<MapHandle, PortError> {
        let map = MapHandle::from_pinned_path(self.folder.join(version.state()).join(name));
        map.map_err(|error| self.not_reopened(&error))
    }

    /// Opens a program of a version, whatever its layout.
    pub(crate) fn program_of(&self, version: &Version, name: &str) -> Result<OwnedFd, PortError> {
        let path = self.folder.join(version.folder()).join(name);
        let program = Program::fd_from_pinned_path(path);
        program.map_err(|error| self.not_reopened(&error))
    }

    fn not_reopened(&self, error: &libbpf_rs::Error) -> PortError {
        PortError::from_libbpf(self.action("reopen the pins in"), error)
    }

    /// Returns the laws from outside the tree that a version has, whatever its layout.
    pub(crate) fn laws_of(&self, version: &Version) -> Result<Vec<LawRow>, PortError> {
        let pin = self.laws_pin(version)?;
        Ok(pin.as_ref().map(laws_in).unwrap_or_default())
    }

    /// Opens the pin of a version's laws; `None` if it has none.
    fn laws_pin(&self, version: &Version) -> Result<Option<MapHandle>, PortError> {
        let path = self.folder.join(version.folder()).join(LAWS);
        if !self.is_whole(&version.folder(), LAWS)? {
            return Ok(None);
        }
        let pin = MapHandle::from_pinned_path(&path);
        let action = || format!("open the pinned map {}", path.display());
        pin.map(Some)
            .map_err(|error| PortError::from_libbpf(action(), &error))
    }

    /// Pins the programs of the store's object, and their maps unless they are pinned. On success they are the
    /// version in force; after an error nothing has changed.
    pub(crate) fn pin_version(&self, programs: &Programs) -> Result<Version, PortError> {
        let number = self.version()?.map_or(1, |version| version.number + 1);
        let version = Version::own(number, &self.object);
        let (state, code) = (version.state(), version.folder());
        // Removes what a process left that was killed before the version was complete.
        self.remove_folder(&code)?;
        if !self.is_whole(&state, LAST_MAP)? {
            self.remove_folder(&state)?;
            self.pin_maps(&state, programs)?;
        }
        let pinned = self.make_folder(&code).and_then(|folder| {
            let mut each = programs.code.each().into_iter();
            each.try_for_each(|(name, fd)| self.pin(fd, &folder.join(name)))
        });
        if pinned.is_err() {
            let _removed_later = self.remove_folder(&code);
        }
        pinned.map(|()| version)
    }

    fn pin_maps(&self, folder: &str, programs: &Programs) -> Result<(), PortError> {
        let pinned = self.make_folder(folder).and_then(|folder| {
            let mut each = programs.maps.each().into_iter();
            each.try_for_each(|(name, map)| self.pin(map.as_fd(), &folder.join(name)))
        });
        if pinned.is_err() {
            let _removed_later = self.remove_folder(folder);
        }
        pinned
    }

    fn make_folder(&self, name: &str) -> Result<PathBuf, PortError> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)
            .map_err(|error| PortError::from_kernel(self.action("make"), error))?;
        Ok(folder)
    }

    /// Removes every version but this one, or all with `None`; and the store itself if it has no
    /// port's link left.
    pub(crate) fn keep_version(&self, version: Option<&Version>) -> Result<(), PortError> {
        let kept = version.map(|version| [version.folder(), version.state()]);
        for name in self.folders()? {
            let is_kept = kept.iter().flatten().any(|kept| *kept == name);
            if !is_kept && !name.starts_with("port-") {
                self.remove_folder(&name)?;
            }
        }
        let _not_empty = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// Removes a folder and its pins, or a file of that name. Removes first the pins that mark a version as complete,
    /// so that a partly removed folder does not count as a version.
    ///
    /// # Errors
    /// The kernel's refusal; what is left can be removed again.
    fn remove_folder(&self, name: &str) -> Result<(), PortError> {
        let path = self.folder.join(name);
        let remove = |pin: PathBuf| unless_missing(fs::remove_file(pin));
        let removed = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => fs::remove_file(&path),
            Err(error) => Err(error),
            Ok(mut entries) => [LAST_PROGRAM, LAST_MAP]
                .into_iter()
                .try_for_each(|last| remove(path.join(last)))
                .and_then(|()| entries.try_for_each(|entry| remove(entry?.path())))
                .and_then(|()| fs::remove_dir(&path)),
        };
        unless_missing(removed)
            .map_err(|error| PortError::from_kernel(format!("remove {}", path.display()), error))
    }

    pub(crate) fn other_version(&self) -> PortError {
        PortError::Other(format!(
            "the pins in {path} are another version's; run `uc agent --once`, or `uc attach` for \
             any port, to move the ports and their flows to this version, or `uc detach --all` to \
             remove them",
            path = self.folder.display()
        ))
    }
}

/// The program that is pinned last: if it exists, all do.
const LAST_PROGRAM: &str = Direction::ToGuest.label();
/// The map that is pinned last: if it exists, all do.
const LAST_MAP: &str = Maps::NAMES[Maps::NAMES.len() - 1];
