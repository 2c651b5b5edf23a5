//! The fields of a struct in maps, as the BTF of the programs that work on it tells. So one build
//! reads what another has written, whose fields have other places and sizes.

use std::ffi::OsStr;

use libbpf_rs::HasSize as _;
use libbpf_rs::btf::types::{Array, Composite, Int, IntEncoding, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfKind, BtfType};

/// What the bytes of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    /// An array of bytes, or a union.
    Bytes,
}

/// A number, or an array of bytes, in a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Names of the members that lead to the field, with dots between, and indices in brackets.
    pub(crate) name: String,
    /// Offset from the struct's beginning, in bytes.
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
}

/// A struct's size in bytes, and its fields, including those of structs within it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) bytes: usize,
    pub(crate) fields: Vec<Field>,
}

impl Shape {
    /// Returns the shape of the struct with this name; `None` if there is none, or it has a field that
    /// no map has, such as a pointer.
    pub(crate) fn of(btf: &Btf<'_>, name: &str) -> Option<Shape> {
        let found: Struct<'_> = btf.type_by_name(name)?;
        let mut shape = Shape {
            bytes: found.size(),
            fields: Vec::new(),
        };
        shape.add(btf, *found, String::new(), 0)?;
        Some(shape)
    }

    /// Returns the offset of a member of the struct, in bytes; `None` if the struct has no such member.
    pub(crate) fn offset(&self, name: &str) -> Option<usize> {
        let is_in = |field: &&Field| {
            let rest = field.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        Some(self.fields.iter().find(is_in)?.at)
    }

    /// Adds the fields of the member `name`, of type `what`, at offset `at`. Returns `None` if it has a field that no
    /// map has.
    fn add(&mut self, btf: &Btf<'_>, what: BtfType<'_>, name: String, at: usize) -> Option<()> {
        let what = what.skip_mods_and_typedefs();
        let (bytes, kind) = match what.kind() {
            BtfKind::Struct => return self.add_members(btf, what, &name, at),
            BtfKind::Union => (size(what)?, Kind::Bytes),
            BtfKind::Array => return self.add_array(btf, what, name, at),
            BtfKind::Int => {
                let int = Int::try_from(what).ok()?;
                let is_signed = matches!(int.encoding, IntEncoding::Signed);
                (
                    int.size(),
                    if is_signed {
                        Kind::Signed
                    } else {
                        Kind::Unsigned
                    },
                )
            }
            _ => return None,
        };
        self.fields.push(Field {
            name,
            at,
            bytes,
            kind,
        });
        Some(())
    }

    fn add_members(
        &mut self,
        btf: &Btf<'_>,
        what: BtfType<'_>,
        name: &str,
        at: usize,
    ) -> Option<()> {
        for member in Composite::try_from(what).ok()?.iter() {
            let MemberAttr::Normal { offset } = member.attr else {
                return None;
            };
            let own = member.name.and_then(OsStr::to_str).unwrap_or_default();
            let dot = if name.is_empty() || own.is_empty() {
                ""
            } else {
                "."
            };
            let what: BtfType<'_> = btf.type_by_id(member.ty)?;
            self.add(
                btf,
                what,
                format!("{name}{dot}{own}"),
                at + offset as usize / 8,
            )?;
        }
        Some(())
    }

    fn add_array(
        &mut self,
        btf: &Btf<'_>,
        what: BtfType<'_>,
        name: String,
        at: usize,
    ) -> Option<()> {
        let array = Array::try_from(what).ok()?;
        let bytes = size(array.contained_type())?;
        if bytes == 1 {
            self.fields.push(Field {
                name,
                at,
                bytes: array.capacity(),
                kind: Kind::Bytes,
            });
            return Some(());
        }
        for index in 0..array.capacity() {
            let name = format!("{name}[{index}]");
            self.add(btf, array.contained_type(), name, at + index * bytes)?;
        }
        Some(())
    }
}

/// Returns the size of a type in bytes; `None` for a type that no map has.
fn size(what: BtfType<'_>) -> Option<usize> {
    let what = what.skip_mods_and_typedefs();
    match what.kind() {
        BtfKind::Struct | BtfKind::Union => Some(Composite::try_from(what).ok()?.size()),
        BtfKind::Int => Some(Int::try_from(what).ok()?.size()),
        BtfKind::Array => {
            let array = Array::try_from(what).ok()?;
            Some(array.capacity() * size(array.contained_type())?)
        }
        _ => None,
    }
}
