//! Object files with the tenant-port programs: this build's own, and those that `uc law build` makes
//! with laws from outside the tree.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::LazyLock;

use libbpf_rs::Btf;
use uc_core::law::OUTSIDE_NUMBERS;
use uc_core::{Law, LawRow};
use uc_law::PortPlan;
use uc_words::fnv::fnv1a;
use zerocopy::FromBytes;

use crate::error::PortError;
use crate::layout::{UC_ABOUT_MARK, uc_about, uc_about_law};
use crate::numbers::{BUILD, LAYOUT};
use crate::refusal::silence_libbpf;
use crate::structs::shape::Shape;

/// The object that clang compiled from `bpf/port/port.bpf.c` when this crate was built.
static OWN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o"));

/// Returns the shapes (size and fields) of this build's structs `uc_flow` and `uc_annex`.
pub(crate) fn own_shapes() -> &'static [Shape; 2] {
    static SHAPES: LazyLock<[Shape; 2]> = LazyLock::new(|| {
        silence_libbpf();
        let btf = Btf::from_raw("port", OWN).ok().flatten();
        let btf = btf.expect("this build's object has BTF");
        ["uc_flow", "uc_annex"]
            .map(|name| Shape::of(&btf, name).expect("a map of it has the struct"))
    });
    &SHAPES
}

/// An object file whose programs work on this build's maps.
#[derive(Clone, PartialEq, Eq)]
pub struct ProgramObject {
    bytes: Cow<'static, [u8]>,
    /// FNV-1a hash of the object file's bytes.
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
    /// Upper limit of the file's size; it has some hundred kilobytes.
    pub const BYTES_MAX: u64 = 16 << 20;

    /// Reads an object file that `uc law build` made.
    ///
    /// # Errors
    /// If the file cannot be read, is another file, or was made for another layout of the maps.
    pub fn read(path: &Path) -> Result<Self, PortError> {
        let bytes = read(path).map_err(|error| refused(path, &error.to_string()))?;
        Self::parse(path, bytes)
    }

    /// Parses the bytes of an object file that `uc law build` made. `path` names the file in errors.
    ///
    /// # Errors
    /// The reason why the file can't be used.
    pub fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, PortError> {
        Self::from_bytes(bytes).map_err(|why| refused(path, why))
    }

    /// Takes the object of a build with another layout of the maps, which has the tree's laws alone. For
    /// tests of upgrades.
    pub fn of_other_layout(bytes: Vec<u8>) -> Self {
        Self {
            build: fnv1a(&bytes),
            bytes: Cow::Owned(bytes),
            ..Self::default()
        }
    }

    /// Checks the bytes of an object file.
    ///
    /// # Errors
    /// The reason why its programs can't be used.
    fn from_bytes(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let mark = &UC_ABOUT_MARK[..16];
        let at = bytes.windows(mark.len()).position(|text| text == mark);
        let about = at.and_then(|at| bytes.get(at..at + size_of::<uc_about>()));
        let about: Box<[u8]> = about
            .ok_or("it does not contain Undercurrent's port programs")?
            .into();
        let laws = laws_of(&about);
        match uc_about::read_from_prefix(&about) {
            Ok((about, _)) if about.layout == LAYOUT => {}
            _ => {
                return Err(
                    "its port programs were built by another version of uc, whose maps differ",
                );
            }
        }
        if laws.is_empty() {
            return Err("its port programs contain no law of your own");
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

    /// Returns the bytes of the object file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the description of the object's laws from outside the tree, to be pinned beside the programs; empty if
    /// the object has none.
    pub(crate) fn about(&self) -> &[u8] {
        if self.laws.is_empty() {
            &[]
        } else {
            &self.about
        }
    }
}

fn refused(path: &Path, why: &str) -> PortError {
    PortError::Other(format!(
        "could not use {}: {why}; make it with `uc law build`",
        path.display()
    ))
}

/// Reads a regular file of at most [`ProgramObject::BYTES_MAX`] bytes. Refuses any other file; opening a pipe does not
/// block.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(ProgramObject::BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > ProgramObject::BYTES_MAX {
        return Err(io::Error::other(format!(
            "it is larger than {} bytes",
            ProgramObject::BYTES_MAX
        )));
    }
    Ok(bytes)
}

/// Returns the laws that the bytes of [`ProgramObject::about`] list.
pub(crate) fn laws_of(about: &[u8]) -> Vec<LawRow> {
    let about = uc_about::read_from_prefix(about);
    let rows = about.map_or_else(|_| Default::default(), |(about, _)| about.laws);
    let rows = rows
        .iter()
        .filter(|row| OUTSIDE_NUMBERS.contains(&row.number));
    rows.map(law).collect()
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

/// Returns the text of a field, which zeros follow, without control characters.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]);
    text.chars().filter(|char| !char.is_control()).collect()
}

/// Checks that an object may replace programs with the laws `old` from outside the tree: the object has these laws
/// first, in the same order, each with the same machine, cut and traits, which flows under way rely on.
pub(crate) fn check_laws(old: &[LawRow], new: &ProgramObject) -> Result<(), PortError> {
    let names = |laws: &[LawRow]| laws.iter().map(|law| law.name.clone()).collect::<Vec<_>>();
    let (in_force, offered) = (names(old), names(&new.laws));
    let mut both = old.iter().zip(&new.laws);
    if old.len() <= new.laws.len() && both.all(|(old, new)| new.may_replace(old)) {
        return Ok(());
    }
    Err(PortError::Other(format!(
        "ports of this host run programs with laws from outside ({in_force}), and those to be \
         loaded have others ({offered}), so flows under them would pass unmodified; give --laws \
         with the folder of laws that begin with these, or run `uc detach --all` first",
        in_force = in_force.join(", "),
        offered = if offered.is_empty() {
            "none".to_owned()
        } else {
            offered.join(", ")
        }
    )))
}

/// Checks that the programs have the laws from outside that the plan's rules name.
pub(crate) fn check_plan_laws(plan: &PortPlan, laws: &[LawRow]) -> Result<(), PortError> {
    for rule in &plan.rules {
        let law = Law::of(&rule.policy);
        let is_had = |row: &LawRow| row.number == law.number() && row.name == law.name();
        if OUTSIDE_NUMBERS.contains(&law.number().into()) && !laws.iter().any(is_had) {
            return Err(PortError::Other(format!(
                "the programs of this host's ports have no law '{}'; give --laws with the folder \
                 that `uc law build` made it in",
                law.name()
            )));
        }
    }
    Ok(())
}
