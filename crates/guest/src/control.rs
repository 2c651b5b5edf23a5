//! A congestion control in the kernel's list, whatever it does.

use std::ffi::OsStr;

use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, Object, ObjectBuilder, PrintLevel};

use crate::error::GuestError;

/// `TCP_CA_NAME_MAX`, the NUL at its end counted.
const NAME_BYTES: usize = 16;

/// A registered congestion control. While the link or a pin of it lives, it can be chosen; then the
/// kernel takes it off its list, and keeps it for the connections that have it.
#[derive(Debug)]
pub(crate) struct Control {
    pub name: String,
    pub link: Link,
    object: Object,
}

impl Control {
    /// Loads `object` and registers its congestion control, whose struct is called `ops` and begins
    /// with its name, as `name`.
    pub fn register(bytes: &[u8], ops: &str, name: &str) -> Result<Self, GuestError> {
        check_name(name)?;
        libbpf_rs::set_print(Some((PrintLevel::Warn, quiet)));
        let action = || format!("load the congestion control '{name}'");
        let failed = |error| GuestError::from_libbpf(action(), &error);
        let missing = |what: &str| GuestError::Kernel {
            action: action(),
            source: std::io::Error::other(format!("the object has no '{what}'")),
        };
        let mut open = ObjectBuilder::default()
            .open_memory(bytes)
            .map_err(failed)?;
        let mut maps = open.maps_mut();
        let mut map = maps
            .find(|map| map.name() == OsStr::new(ops))
            .ok_or_else(|| missing(ops))?;
        let place = map
            .initial_value_mut()
            .and_then(|value| value.get_mut(..NAME_BYTES));
        let place = place.ok_or_else(|| missing(ops))?;
        place.fill(0);
        place[..name.len()].copy_from_slice(name.as_bytes());
        drop(maps);
        let mut object = open.load().map_err(failed)?;
        let mut maps = object.maps_mut();
        let mut map = maps
            .find(|map| map.name() == OsStr::new(ops))
            .ok_or_else(|| missing(ops))?;
        let link = map
            .attach_struct_ops()
            .map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => GuestError::NameTaken { name: name.into() },
                _ => failed(error),
            })?;
        drop(maps);
        Ok(Self {
            name: name.into(),
            link,
            object,
        })
    }

    /// A map of its object.
    pub fn map(&self, name: &str) -> Result<MapHandle, GuestError> {
        let action = || format!("find the map '{name}' of '{}'", self.name);
        let map = self
            .object
            .maps()
            .find(|map| map.name() == OsStr::new(name));
        let map = map.ok_or_else(|| GuestError::Kernel {
            action: action(),
            source: std::io::Error::other("the object lacks it"),
        })?;
        MapHandle::try_from(&map).map_err(|error| GuestError::from_libbpf(action(), &error))
    }
}

/// The kernel's own rule for names that come from BPF.
pub(crate) fn check_name(name: &str) -> Result<(), GuestError> {
    let fits = (1..NAME_BYTES).contains(&name.len());
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if fits && name.bytes().all(legal) {
        Ok(())
    } else {
        Err(GuestError::BadName { name: name.into() })
    }
}

/// Keeps libbpf's own messages off standard error: they repeat the error that is returned.
fn quiet(_level: PrintLevel, _message: String) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_would_not_take_is_refused_before_anything_is_loaded() {
        for name in [
            "",
            "sixteen_letters_",
            "a b",
            "uc/dctcp",
            "dctcp\u{e9}",
            "a\0b",
        ] {
            let refusal = Control::register(&[], "ops", name).unwrap_err();
            assert!(matches!(refusal, GuestError::BadName { .. }), "{refusal}");
        }
        for name in ["a", "uc_dctcp.1", "fifteen_letters"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
    }
}
