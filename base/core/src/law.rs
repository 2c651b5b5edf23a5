//! The core's table of laws (`core/laws/table.h`).

use std::ffi::{CStr, c_char};
use std::fmt;

use crate::{Flow, sys};

/// A congestion control law, by its number in a policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Law(u8);

/// A word that a file or an option may have, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word as it is written.
    pub word: &'static str,
    /// One sentence for help, schema and documents.
    pub what: &'static str,
}

/// A property of a law that others go by; `core/laws/table.h` says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trait(u32);

impl Trait {
    /// The law uses marks: the host offers ECN for it.
    pub const WANTS_ECN: Trait = Trait(sys::UC_WANTS_ECN);
    /// A flow whose peer refuses ECN passes unmodified.
    pub const NEEDS_ECN: Trait = Trait(sys::UC_NEEDS_ECN);
    /// The law depends on which bytes were marked.
    pub const EXACT: Trait = Trait(sys::UC_EXACT);
    /// Windows count bytes in both profiles.
    pub const BYTES: Trait = Trait(sys::UC_BYTES);
    /// A flow's window is always its share of a group's.
    pub const GROUPED: Trait = Trait(sys::UC_GROUPED);
}

impl Law {
    /// Leaves every flow unmodified.
    pub const PASS: Law = Law(sys::UC_LAW_PASS as u8);
    /// NewReno that obeys ECN (RFC 3168).
    pub const ECN: Law = Law(sys::UC_LAW_ECN as u8);
    /// DCTCP (RFC 8257).
    pub const DCTCP: Law = Law(sys::UC_LAW_DCTCP as u8);
    /// Keeps round trips to a target.
    pub const DELAY: Law = Law(sys::UC_LAW_DELAY as u8);
    /// NewReno whose window is a share of its group's.
    pub const COUPLED: Law = Law(sys::UC_LAW_COUPLED as u8);

    /// Returns the laws of the table, in its order.
    pub fn all() -> impl Iterator<Item = Law> {
        rows().iter().map(|row| Law(row.number))
    }

    /// Returns the law of this name; `None` if the table has none.
    pub fn named(name: &str) -> Option<Law> {
        Law::all().find(|law| law.name() == name)
    }

    /// Returns the law of a policy.
    pub fn of(policy: &crate::Policy) -> Law {
        Law(policy.law)
    }

    /// Returns the law's number in a policy.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the law's name in files and on the command line; `unknown` if the table lacks it.
    pub fn name(self) -> &'static str {
        self.row().map_or("unknown", |row| text(row.name))
    }

    /// Describes the law in a few words.
    pub fn what(self) -> &'static str {
        self.row().map_or("not in this table", |row| text(row.what))
    }

    /// Says why the law cuts a window: `{target}` stands for the policy's target in microseconds, `{us}` and
    /// `{q30}` for the event's signal, in microseconds or as a fraction of 2^30.
    pub fn why_it_cuts(self) -> &'static str {
        self.row().map_or("", |row| text(row.why_it_cuts))
    }

    /// Tells whether the law has a trait.
    pub fn has(self, of: Trait) -> bool {
        self.row().is_some_and(|row| row.traits & of.0 != 0)
    }

    fn row(self) -> Option<&'static sys::law_row> {
        rows().iter().find(|row| row.number == self.0)
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

/// Returns the estimate α of marked bytes in 1/2^30 if the flow's law keeps it as DCTCP does.
pub fn alpha_q30(flow: &Flow) -> Option<u32> {
    let mut alpha_q30 = 0;
    // SAFETY: both pointers are valid for the call and the C side keeps neither.
    let has_one = unsafe { sys::uc_shim_alpha_q30(flow, &mut alpha_q30) } != 0;
    has_one.then_some(alpha_q30)
}

fn rows() -> &'static [sys::law_row] {
    let mut count = 0;
    // SAFETY: the C side writes the count and returns an array of so many rows that stays.
    unsafe { std::slice::from_raw_parts(sys::uc_shim_laws(&mut count), count as usize) }
}

pub(crate) fn word(row: &sys::word_row) -> Word {
    Word {
        word: text(row.word),
        what: text(row.what),
    }
}

/// Returns the text of a row.
pub(crate) fn text(literal: *const c_char) -> &'static str {
    // SAFETY: every pointer in a row is to a string literal.
    unsafe { CStr::from_ptr(literal) }
        .to_str()
        .unwrap_or("not UTF-8")
}
