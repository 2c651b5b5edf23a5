//! The core's table of laws (`core/laws/table.h`), and the laws from outside the tree that this
//! process was told of.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::{LazyLock, PoisonError, RwLock};

use crate::sys;

/// A congestion control law, by its number in a policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Law(u8);

/// A word that a file or an option accepts, with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word, as files and options write it.
    pub word: &'static str,
    /// One sentence for help, schema and documents.
    pub what: &'static str,
}

/// A trait of a law, a property that other code asks for; `core/laws/table.h` defines each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trait(u32);

impl Trait {
    /// The law uses marks: the host offers ECN for it.
    pub const WANTS_ECN: Trait = Trait(sys::UC_WANTS_ECN);
    /// Trait of laws that need ECN: a flow whose peer refuses ECN passes unmodified.
    pub const NEEDS_ECN: Trait = Trait(sys::UC_NEEDS_ECN);
    /// The law depends on which bytes were marked.
    pub const EXACT: Trait = Trait(sys::UC_EXACT);
    /// Trait of laws that count their window in bytes in both profiles.
    pub const BYTES: Trait = Trait(sys::UC_BYTES);
    /// A flow's window is always its share of a group's.
    pub const GROUPED: Trait = Trait(sys::UC_GROUPED);

    /// Every trait with its name in `core/laws/table.h`.
    const NAMES: [(u32, &str); 8] = [
        (sys::UC_WANTS_ECN, "UC_WANTS_ECN"),
        (sys::UC_NEEDS_ECN, "UC_NEEDS_ECN"),
        (sys::UC_EXACT, "UC_EXACT"),
        (sys::UC_SHALLOW, "UC_SHALLOW"),
        (sys::UC_BYTES, "UC_BYTES"),
        (sys::UC_TIMED, "UC_TIMED"),
        (sys::UC_FAR, "UC_FAR"),
        (sys::UC_GROUPED, "UC_GROUPED"),
    ];
}

/// One row of the table of laws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LawRow {
    /// Number that identifies the law in a policy.
    pub number: u8,
    /// The law's name in files and on the command line.
    pub name: String,
    /// Description of the law in a few words.
    pub what: String,
    /// Why the law cuts a window ([`Law::why_it_cuts`]).
    pub why_it_cuts: String,
    /// Name of the machine, which grows the window and reduces it on a loss.
    pub machine: String,
    /// Name of the law's cut: the function that computes how much of the window is left after a mark.
    pub cut: String,
    /// Bits of the law's traits, each a `UC_…` constant.
    pub traits: u32,
}

impl LawRow {
    /// Returns the names of the law's traits, as `core/laws/table.h` writes them.
    pub fn trait_names(&self) -> Vec<&'static str> {
        let own = Trait::NAMES
            .iter()
            .filter(|(bit, _)| self.traits & bit != 0);
        own.map(|(_, name)| *name).collect()
    }

    /// Returns whether flows of the law `other` may go on under this law: both have the same name, machine,
    /// cut and traits.
    pub fn may_replace(&self, other: &LawRow) -> bool {
        self.name == other.name
            && (&self.machine, &self.cut, self.traits) == (&other.machine, &other.cut, other.traits)
    }
}

impl Law {
    /// The law that passes every flow unmodified.
    pub const PASS: Law = Law(sys::UC_LAW_PASS as u8);
    /// NewReno that reduces its window on ECN marks (RFC 3168).
    pub const ECN: Law = Law(sys::UC_LAW_ECN as u8);
    /// DCTCP (RFC 8257).
    pub const DCTCP: Law = Law(sys::UC_LAW_DCTCP as u8);
    /// The law that keeps the round-trip time near a target.
    pub const DELAY: Law = Law(sys::UC_LAW_DELAY as u8);
    /// NewReno whose window is a share of the window of the flow's group.
    pub const COUPLED: Law = Law(sys::UC_LAW_COUPLED as u8);

    /// Returns the laws of the tree, in the order of the table, and then the laws of your own that this
    /// process has loaded.
    pub fn all() -> impl Iterator<Item = Law> {
        let outside = outside().into_iter().map(|row| Law(row.number));
        Law::inside().chain(outside)
    }

    /// Returns the tree's laws, in the order of the table.
    pub fn inside() -> impl Iterator<Item = Law> {
        ROWS.iter().map(|row| Law(row.number))
    }

    /// Tells this process which laws from outside the tree have which numbers; a later law of a number
    /// takes the place of an earlier one. The rows stay in memory until the process ends.
    pub fn tell_outside(laws: &[LawRow]) {
        let mut told = OUTSIDE.write().unwrap_or_else(PoisonError::into_inner);
        for law in laws {
            if told.contains(&law) {
                continue;
            }
            told.retain(|row| row.number != law.number);
            told.push(Box::leak(Box::new(law.clone())));
        }
        told.sort_by_key(|row| row.number);
    }

    /// Returns the first of `laws` whose number this process already uses for a different law, and that known law;
    /// `None`: there is none.
    pub fn conflict(laws: &[LawRow]) -> Option<(&LawRow, &'static LawRow)> {
        laws.iter().find_map(|law| {
            let known = outside().into_iter().find(|row| row.number == law.number);
            Some((law, known.filter(|row| !law.may_replace(row))?))
        })
    }

    /// Returns the law of this name; `None` if the table has none.
    pub fn named(name: &str) -> Option<Law> {
        Law::all().find(|law| law.name() == name)
    }

    /// Returns the law that a flow's policy names.
    pub fn of(policy: &crate::Policy) -> Law {
        Law(policy.law)
    }

    /// Returns the law's number in a policy.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the law's name in files and on the command line; its number if no law that this process
    /// knows has it.
    pub fn name(self) -> &'static str {
        match self.row() {
            Some(row) => &row.name,
            None => NUMBERS.get(usize::from(self.0)).unwrap_or(&"unknown"),
        }
    }

    /// Describes the law in a few words.
    pub fn what(self) -> &'static str {
        self.row()
            .map_or("a law that is not in the tree", |row| &row.what)
    }

    /// Says why the law cuts a window: `{target}` stands for the policy's target in microseconds, `{us}` and
    /// `{q30}` for the event's signal, in microseconds or as a fraction of 2^30.
    pub fn why_it_cuts(self) -> &'static str {
        self.row()
            .map_or("the law's own reason", |row| &row.why_it_cuts)
    }

    /// Tells whether the law has a trait.
    pub fn has(self, of: Trait) -> bool {
        self.row().is_some_and(|row| row.traits & of.0 != 0)
    }

    /// Returns a law of the tree that keeps its window as this law does: the law itself if it belongs to
    /// the tree. `None` if this law has a machine of its own, or is not known.
    pub fn of_same_window(self) -> Option<Law> {
        let own = self.row()?;
        let counts = |row: &LawRow| row.traits & Trait::BYTES.0;
        let alike = |row: &&LawRow| row.machine == own.machine && counts(row) == counts(own);
        let is_inside = Law::inside().any(|law| law == self);
        let other = || ROWS.iter().find(alike).map(|row| Law(row.number));
        Some(self).filter(|_| is_inside).or_else(other)
    }

    fn row(self) -> Option<&'static LawRow> {
        let inside = ROWS.iter().find(|row| row.number == self.0);
        inside.or_else(|| outside().iter().copied().find(|row| row.number == self.0))
    }
}

impl fmt::Debug for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the words for the TCP sender that a law's shadow imitates; a word's place is its number.
pub fn profiles() -> Vec<Word> {
    let mut count = 0;
    // SAFETY: the C side writes the count and returns an array of so many rows that stays.
    let rows =
        unsafe { std::slice::from_raw_parts(sys::uc_shim_profiles(&mut count), count as usize) };
    rows.iter().map(word).collect()
}

/// The numbers of laws from outside the tree.
pub const OUTSIDE_NUMBERS: std::ops::Range<u32> = sys::UC_LAW_OUTSIDE..sys::UC_LAW_NUMBERS;

/// Maximum number of laws from outside the tree.
pub const OUTSIDE_MAX: usize = (OUTSIDE_NUMBERS.end - OUTSIDE_NUMBERS.start) as usize;

/// The names of laws that are known by number alone.
const NUMBERS: [&str; sys::UC_LAW_NUMBERS as usize] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
];

/// The rows of the laws that are compiled into this program.
static ROWS: LazyLock<Vec<LawRow>> = LazyLock::new(|| {
    let mut count = 0;
    // SAFETY: the C side writes the count and returns an array of so many rows that stays.
    let rows = unsafe { std::slice::from_raw_parts(sys::uc_shim_laws(&mut count), count as usize) };
    rows.iter().map(row).collect()
});

/// The laws from outside the tree that this process was told of.
static OUTSIDE: RwLock<Vec<&'static LawRow>> = RwLock::new(Vec::new());

fn outside() -> Vec<&'static LawRow> {
    OUTSIDE
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

pub(crate) fn row(row: &sys::law_row) -> LawRow {
    LawRow {
        number: row.number,
        name: text(row.name).to_owned(),
        what: text(row.what).to_owned(),
        why_it_cuts: text(row.why_it_cuts).to_owned(),
        machine: text(row.machine).to_owned(),
        cut: text(row.cut).to_owned(),
        traits: row.traits,
    }
}

pub(crate) fn word(row: &sys::word_row) -> Word {
    Word {
        word: text(row.word),
        what: text(row.what),
    }
}

/// Returns a C string literal of a row as text.
pub(crate) fn text(literal: *const c_char) -> &'static str {
    // SAFETY: every pointer in a row is to a string literal.
    unsafe { CStr::from_ptr(literal) }
        .to_str()
        .unwrap_or("not UTF-8")
}
