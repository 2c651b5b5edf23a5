//! Object files with the tenant-port programs: this build's own, and those that `uc law build` makes
//! with laws from outside the tree.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use uc_core::LawRow;
use uc_words::fnv::fnv1a;
use zerocopy::FromBytes;

use crate::error::PortError;
use crate::layout::{UC_ABOUT_MARK, uc_about, uc_about_law};
use crate::numbers::{BUILD, LAYOUT};

/// The object that clang compiled from `bpf/port/port.bpf.c` when this crate was built.
static OWN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o"));

/// An object file whose programs work on this build's maps.
#[derive(Clone, PartialEq, Eq)]
pub struct ProgramObject {
    bytes: Cow<'static, [u8]>,
    /// Hash of the file.
    pub(crate) build: u64,
    about: Box<[u8]>,
    laws: Vec<LawRow>,
}

impl Default for ProgramObject {
    /// Returns this build's own object, which has the tree's laws alone.
    fn default() -> Self {
        Self {
            bytes: Cow::Borrowed(OWN),
            build: BUILD,
            about: Box::default(),
            laws: Vec::new(),
        }
    }
}

impl fmt::Debug for ProgramObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.laws.iter().map(|law| &law.name);
        write!(f, "programs {:016x} with laws ", self.build)?;
        f.debug_list().entries(names).finish()
    }
}

impl ProgramObject {
    /// Name of the file in a folder that `uc law build` built into.
    pub const FILE_NAME: &str = "port.bpf.o";

    /// Reads an object file that `uc law build` made.
    ///
    /// # Errors
    /// If the file cannot be read, is another file, or was made for another layout of the maps.
    pub fn read(path: &Path) -> Result<Self, PortError> {
        let refused = |why: String| PortError::NoObject {
            path: path.to_owned(),
            why,
        };
        let bytes = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
        Self::from_bytes(bytes).map_err(|why| refused(why.to_owned()))
    }

    /// Checks an object file that was read already.
    ///
    /// # Errors
    /// Why its programs cannot be used.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let mark = &UC_ABOUT_MARK[..16];
        let at = bytes.windows(mark.len()).position(|text| text == mark);
        let about = at.and_then(|at| bytes.get(at..at + size_of::<uc_about>()));
        let about: Box<[u8]> = about.ok_or("it has no port programs")?.into();
        let laws = laws_of(&about);
        match uc_about::read_from_prefix(&about) {
            Ok((about, _)) if about.layout == LAYOUT => {}
            _ => return Err("its programs are for the maps of another version of uc"),
        }
        Ok(Self {
            build: fnv1a(&bytes),
            bytes: Cow::Owned(bytes),
            about,
            laws,
        })
    }

    /// Returns the object's laws from outside the tree, in the order of their numbers.
    pub fn laws(&self) -> &[LawRow] {
        &self.laws
    }

    /// Returns the file's contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns what the object says of its laws from outside, to be kept beside the programs; nothing
    /// if it has none.
    pub(crate) fn about(&self) -> &[u8] {
        if self.laws.is_empty() {
            &[]
        } else {
            &self.about
        }
    }
}

/// Returns the laws of which [`ProgramObject::about`] speaks.
pub(crate) fn laws_of(about: &[u8]) -> Vec<LawRow> {
    let about = uc_about::read_from_prefix(about);
    let rows = about.map_or_else(|_| Default::default(), |(about, _)| about.laws);
    rows.iter().filter(|row| row.number != 0).map(law).collect()
}

fn law(row: &uc_about_law) -> LawRow {
    LawRow {
        number: row.number as u8,
        name: text(&row.name),
        what: text(&row.what),
        why_it_cuts: text(&row.why_it_cuts),
        machine: text(&row.machine),
        cut: text(&row.cut),
        traits: row.traits,
    }
}

/// Returns the text of a field, which zeros follow.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}

/// The laws from outside that programs in force have, and those of an object that replaces them.
pub(crate) fn check_laws(old: &[LawRow], new: &ProgramObject) -> Result<(), PortError> {
    let names = |laws: &[LawRow]| laws.iter().map(|law| law.name.clone()).collect::<Vec<_>>();
    let (in_force, offered) = (names(old), names(&new.laws));
    if offered.starts_with(&in_force) {
        return Ok(());
    }
    Err(PortError::OtherLaws {
        in_force: in_force.join(", "),
        offered: if offered.is_empty() {
            "none".to_owned()
        } else {
            offered.join(", ")
        },
    })
}
