//! A loaded object file, whose maps and programs are taken by name.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenMapMut};

use crate::error::PortError;
use crate::kernel_error::KernelError;
use crate::refusal::{self, silence_libbpf};

/// A loaded object. Its maps and programs live while any descriptor of them does.
#[derive(Debug)]
pub struct Loaded {
    object: Object,
    action: &'static str,
}

impl Loaded {
    /// Loads an object, after `prepare` was called with each of its maps. `action` names the operation in
    /// errors.
    ///
    /// # Errors
    /// The kernel's refusal; [`PortError::Refused`] names the program and the place.
    pub fn load(
        action: &'static str,
        object: &[u8],
        mut prepare: impl FnMut(&mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
    ) -> Result<Self, PortError> {
        silence_libbpf();
        let failed = |error| PortError::from_libbpf(action, &error);
        let mut open = ObjectBuilder::default()
            .open_memory(object)
            .map_err(failed)?;
        for mut map in open.maps_mut() {
            prepare(&mut map).map_err(failed)?;
        }
        let object = refusal::load(action, open)?;
        Ok(Self { object, action })
    }

    /// Returns a descriptor of the map with this name.
    ///
    /// # Errors
    /// If the object has none; the kernel's refusal.
    pub fn map(&self, name: &str) -> Result<MapHandle, PortError> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == OsStr::new(name));
        MapHandle::try_from(&map.ok_or_else(|| self.missing(name))?)
            .map_err(|error| PortError::from_libbpf(self.action, &error))
    }

    /// Returns a descriptor of the program with this name.
    ///
    /// # Errors
    /// If the object has none; the system's refusal.
    pub fn program(&self, name: &str) -> Result<OwnedFd, PortError> {
        let program = self
            .object
            .progs()
            .find(|program| program.name() == OsStr::new(name));
        program
            .ok_or_else(|| self.missing(name))?
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| PortError::from_kernel(self.action, source))
    }

    fn missing(&self, name: &str) -> PortError {
        let why = io::Error::other(format!("the object has no '{name}'"));
        KernelError::new(self.action, why).into()
    }
}
