//! Registration of a congestion control in the kernel, whatever its algorithm.

use std::ffi::OsStr;

use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, Object, ObjectBuilder, PrintLevel};
use uc_port::KernelError;

use crate::error::{GuestError, Linux};

/// The kernel's `TCP_CA_NAME_MAX`: maximum length of a name in bytes, including the terminating NUL.
const NAME_BYTES: usize = 16;
/// First kernel in which the registration of a congestion control can be a pinned link.
const NEEDED: Linux = Linux(6, 4);

/// Registered congestion controls of one object, which share its maps. Sockets can choose a congestion control while
/// its link or a pin of the link exists. Afterwards the kernel removes it from its list, and keeps it for the
/// connections that use it.
#[derive(Debug)]
pub(crate) struct Control {
    pub registered: Vec<Registered>,
    object: Object,
}

/// One congestion control that this program registered in the kernel.
#[derive(Debug)]
pub(crate) struct Registered {
    pub name: String,
    pub link: Link,
}

/// A congestion control in an object file, which is a map of type struct_ops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ops<'a> {
    /// Name of the congestion control's struct in the object file.
    pub ops: &'a str,
    /// The name to register in the kernel; `None`: not registered, because this kernel can't have it.
    pub name: Option<&'a str>,
}

impl Control {
    /// Loads the object and registers every congestion control that has a name to register. Calls `prepare` with the
    /// loaded object before a socket can choose one of them.
    pub fn register(
        bytes: &[u8],
        all: &[Ops<'_>],
        prepare: impl FnOnce(&Object) -> Result<(), GuestError>,
    ) -> Result<Self, GuestError> {
        let named = || all.iter().filter_map(|ops| Some((ops.ops, ops.name?)));
        named().try_for_each(|(_, name)| check_name(name))?;
        quieten();
        let mut object = load(bytes, all)?;
        prepare(&object)?;
        let registered = named().map(|(ops, name)| {
            let link = attach(&mut object, ops, name)?;
            let name = name.into();
            Ok(Registered { name, link })
        });
        let registered = registered.collect::<Result<_, GuestError>>()?;
        Ok(Self { registered, object })
    }

    /// Returns a map of the congestion control's object.
    pub fn map(&self, name: &str) -> Result<MapHandle, GuestError> {
        map_of(&self.object, name)
    }
}

/// Returns a map of a loaded object.
pub(crate) fn map_of(object: &Object, name: &str) -> Result<MapHandle, GuestError> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name));
    let map = map.ok_or_else(|| missing(name))?;
    MapHandle::try_from(&map)
        .map_err(|error| GuestError::from_libbpf(format!("use the map '{name}'"), &error))
}

pub(crate) fn missing(what: &str) -> GuestError {
    let action = format!("find '{what}' in the object");
    KernelError::new(action, std::io::Error::other("it has none")).into()
}

fn loading(all: &[Ops<'_>]) -> String {
    let names: Vec<_> = all.iter().filter_map(|ops| ops.name).collect();
    format!("load the congestion control '{}'", names.join("' and '"))
}

/// Writes the names to register into the object's structs, and loads the object into the kernel.
fn load(bytes: &[u8], all: &[Ops<'_>]) -> Result<Object, GuestError> {
    let failed = |error| GuestError::from_loading(loading(all), &error, NEEDED);
    let mut open = ObjectBuilder::default()
        .open_memory(bytes)
        .map_err(failed)?;
    for one in all {
        let mut maps = open.maps_mut();
        let mut map = maps
            .find(|map| map.name() == OsStr::new(one.ops))
            .ok_or_else(|| missing(one.ops))?;
        let Some(name) = one.name else {
            map.set_autocreate(false).map_err(failed)?;
            continue;
        };
        let place = map
            .initial_value_mut()
            .and_then(|value| value.get_mut(..NAME_BYTES));
        let place = place.ok_or_else(|| missing(one.ops))?;
        place.fill(0);
        place[..name.len()].copy_from_slice(name.as_bytes());
    }
    open.load().map_err(failed)
}

fn attach(object: &mut Object, ops: &str, name: &str) -> Result<Link, GuestError> {
    let mut maps = object.maps_mut();
    let mut map = maps
        .find(|map| map.name() == OsStr::new(ops))
        .ok_or_else(|| missing(ops))?;
    map.attach_struct_ops().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => GuestError::NameTaken { name: name.into() },
        _ => GuestError::from_loading(format!("register '{name}'"), &error, NEEDED),
    })
}

/// Checks a name by the kernel's rule for congestion controls in BPF.
pub(crate) fn check_name(name: &str) -> Result<(), GuestError> {
    check_beginning(name, "")
}

/// Checks the beginning of a name, given by the user, to which `ending` will be appended.
pub(crate) fn check_beginning(name: &str, ending: &str) -> Result<(), GuestError> {
    let most = NAME_BYTES - 1 - ending.len();
    let fits = (1..=most).contains(&name.len());
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if fits && name.bytes().all(legal) {
        Ok(())
    } else {
        let name = name.into();
        Err(GuestError::BadName { name, most })
    }
}

/// Suppresses libbpf's own messages on standard error, because the returned error repeats them.
pub(crate) fn quieten() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, quiet)));
}

fn quiet(_level: PrintLevel, _message: String) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_name_is_refused_before_loading() {
        for name in [
            "",
            "sixteen_letters_",
            "a b",
            "uc/dctcp",
            "dctcp\u{e9}",
            "a\0b",
        ] {
            let ops = Ops {
                ops: "ops",
                name: Some(name),
            };
            let refusal = Control::register(&[], &[ops], |_| Ok(())).unwrap_err();
            assert!(matches!(refusal, GuestError::BadName { .. }), "{refusal}");
        }
        for name in ["a", "uc_dctcp.1", "fifteen_letters"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        assert!(check_beginning("ten_letter", "cubic").is_ok());
        let refusal = check_beginning("ten_letters", "cubic").unwrap_err();
        assert!(refusal.to_string().contains("1 to 10 letters"), "{refusal}");
    }
}
