//! The core's lists of parameters (`core/parameter.h`) as data: which parameters laws and start-up control have, and
//! how their values are written.

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use crate::law::{Law, Word, text, word};
use crate::watch::StartPolicy;
use crate::{Policy, sys};

/// How the number of a field is written in files and on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fraction from 0 to 1; the field counts 128ths.
    Fraction,
    /// A whole number without a unit.
    Number,
    /// A whole number of segments.
    Segments,
    /// One of [`Row::words`]; the field has its number.
    Word,
    /// A switch, true or false, written as 1 or 0 into one bit of the field; other parameters may have
    /// further bits.
    Flag,
    /// A time; the field counts microseconds, rounded up.
    Microseconds,
    /// A time, such as `5us`; the core's field counts nanoseconds.
    Nanoseconds,
    /// A size, such as `64KiB`; the core's field counts bytes.
    Bytes,
    /// A rate in bits per second; the field counts bytes per second.
    Rate,
}

/// One parameter of `Of`: [`Policy`] or [`StartPolicy`]. All numbers are in the field's own unit.
#[derive(Clone, Debug)]
pub struct Row<Of> {
    /// The name in files; on the command line with `-` instead of `_`.
    pub key: &'static str,
    /// Description of the parameter in one sentence, for help, schema and documents; begins in lower case.
    pub what: &'static str,
    /// How a value of the parameter is written.
    pub kind: Kind,
    /// The words of kind [`Kind::Word`], else none; a word's place is its number.
    pub words: Vec<Word>,
    /// The values that an operator may give, in the field's unit.
    pub range: RangeInclusive<u64>,
    /// Value of the field if the parameter is not given; `None`: the parameter must be given. A value
    /// outside `range` switches off the parameter's effect.
    pub usual: Option<u64>,
    laws: u32,
    /// The bits of the field that are the row's: of kind [`Kind::Flag`] one, else all.
    mask: u64,
    offset_bytes: usize,
    size_bytes: u8,
    of: PhantomData<fn(&mut Of)>,
}

/// TOML keys of policy parameters that other code refers to, for checks across parameters. Each is
/// a key of [`parameters`].
pub mod keys {
    /// Key of the target round-trip time of law `delay`.
    pub const TARGET: &str = "target";
    /// Key of the treatment of guests that negotiate ECN.
    pub const GUEST_ECN: &str = "guest_ecn";
    /// Key of the number of segments beyond the advertised window from which data is dropped.
    pub const GUARD: &str = "guard";
    /// Key of strict mode: no flow may go untranslated.
    pub const STRICT: &str = "strict";
    /// Key of removing the window scale offer from SYN and SYN-ACK.
    pub const NO_WINDOW_SCALE: &str = "no_window_scale";
    /// Key of removing the SACK offer from SYN and SYN-ACK.
    pub const NO_SACK: &str = "no_sack";
    /// Key of removing the timestamps offer from SYN and SYN-ACK.
    pub const NO_TIMESTAMPS: &str = "no_timestamps";
    /// Key of the observing mode, in which no packet is edited.
    pub const OBSERVE: &str = "observe";
    /// Keys that have no effect at an observing port: they only affect edits.
    pub const WRITING: [&str; 6] = [
        GUEST_ECN,
        GUARD,
        STRICT,
        NO_WINDOW_SCALE,
        NO_SACK,
        NO_TIMESTAMPS,
    ];
    /// All parameter keys that this module names.
    pub const ALL: [&str; 8] = [
        TARGET,
        GUEST_ECN,
        GUARD,
        STRICT,
        NO_WINDOW_SCALE,
        NO_SACK,
        NO_TIMESTAMPS,
        OBSERVE,
    ];
}

/// TOML keys of start settings that other code refers to. Each is a key of [`start_settings`].
pub mod start_keys {
    /// Key of the number of probes that are sent before a flow starts.
    pub const PROBES: &str = "probes";
    /// Key of the time over which the probes of a flow are spread.
    pub const SPAN: &str = "span";
    /// Key of the rate at which first windows are paced.
    pub const PACE: &str = "pace";
    /// Key of the maximum time that a first window waits for its pacing slot.
    pub const WAIT: &str = "wait";
    /// Key of the observing mode, in which no first window is written.
    pub const OBSERVE: &str = "observe";
    /// All parameter keys that this module names.
    pub const ALL: [&str; 5] = [PROBES, SPAN, PACE, WAIT, OBSERVE];
}

/// Returns the rows of the parameters of laws that an operator can set for a port, in the order of the
/// table.
pub fn parameters() -> &'static [Row<Policy>] {
    static ROWS: LazyLock<Vec<Row<Policy>>> = LazyLock::new(|| {
        // SAFETY: the rows are of `Policy`, and as many as the function writes; they stay.
        unsafe { read(sys::uc_shim_parameters) }
    });
    &ROWS
}

/// Returns the rows of the settings of start-up control `watch` that an operator can set, in the order of
/// the table.
pub fn start_settings() -> &'static [Row<StartPolicy>] {
    static ROWS: LazyLock<Vec<Row<StartPolicy>>> = LazyLock::new(|| {
        // SAFETY: the rows are of `StartPolicy`, and as many as the function writes; they stay.
        unsafe { read(sys::uc_shim_start_settings) }
    });
    &ROWS
}

impl StartPolicy {
    /// Returns the usual settings of start-up control `watch`: ten probes, as in the HWatch paper, sent within
    /// less than the paper's half of a round trip (`docs/hwatch.md` has the measurements), and no pacing,
    /// because only the operator knows the rate of a link.
    pub fn usual() -> StartPolicy {
        let mut policy = StartPolicy::default();
        for row in start_settings() {
            row.set(&mut policy, row.usual.unwrap_or_default());
        }
        policy
    }
}

impl<Of> Row<Of> {
    /// Tells whether this law has the parameter.
    pub fn is_of(&self, law: Law) -> bool {
        self.laws >> law.number() & 1 != 0
    }

    /// Returns the laws that have this parameter, in the order of [`Law::all`].
    pub fn laws(&self) -> impl Iterator<Item = Law> {
        let laws = self.laws;
        Law::all().filter(move |law| laws >> law.number() & 1 != 0)
    }

    /// Tells whether every law but `pass` has the parameter.
    pub fn is_of_any_law(&self) -> bool {
        self.laws == sys::UC_OF_ANY
    }

    /// Returns the field's number; of a flag 1 or 0.
    pub fn get(&self, of: &Of) -> u64 {
        let number = self.field(of) & self.mask;
        match self.kind {
            Kind::Flag => u64::from(number != 0),
            _ => number,
        }
    }

    /// Writes the field; of a value with more bits than the field, the lowest bits. A flag writes its own bit only: 0
    /// clears it, any other value sets it.
    pub fn set(&self, of: &mut Of, value: u64) {
        let value = match self.kind {
            Kind::Flag if value != 0 => self.field(of) | self.mask,
            Kind::Flag => self.field(of) & !self.mask,
            _ => value,
        };
        let field = std::ptr::from_mut(of).wrapping_byte_add(self.offset_bytes);
        // SAFETY: the field lies within `of`, and the C side writes so many bytes of it: a whole
        // number, of which every bit pattern is valid.
        unsafe { sys::uc_shim_set_field(field.cast(), self.size_bytes, value) };
    }

    fn field(&self, of: &Of) -> u64 {
        let field = std::ptr::from_ref(of).wrapping_byte_add(self.offset_bytes);
        // SAFETY: the field lies within `of`, and the C side reads so many bytes of it.
        unsafe { sys::uc_shim_field(field.cast(), self.size_bytes) }
    }
}

/// Reads the core's rows.
///
/// # Safety
/// `list` must write into its argument how many rows it returns. They must be rows of `Of`, and
/// stay, with their texts and words.
unsafe fn read<Of>(
    list: unsafe extern "C" fn(*mut u32) -> *const sys::parameter_row,
) -> Vec<Row<Of>> {
    let mut count = 0;
    // SAFETY: as the caller says.
    let rows = unsafe { std::slice::from_raw_parts(list(&mut count), count as usize) };
    rows.iter()
        .map(|row| {
            // SAFETY: as the caller says, the row has so many words.
            let words = unsafe { std::slice::from_raw_parts(row.words, row.word_count as usize) };
            let kind = kind(row.kind);
            let (most, mask) = match kind {
                Kind::Flag => (1, row.most),
                _ => (row.most, u64::MAX),
            };
            Row {
                key: text(row.key),
                what: text(row.what),
                kind,
                words: words.iter().map(word).collect(),
                range: row.least..=most,
                mask,
                usual: (row.needed == 0).then_some(row.usual),
                laws: row.laws,
                offset_bytes: row.offset_bytes.into(),
                size_bytes: row.size_bytes,
                of: PhantomData,
            }
        })
        .collect()
}

/// Returns the kind with this number.
///
/// # Panics
/// If the core has a kind that this crate lacks.
fn kind(number: u32) -> Kind {
    match number {
        sys::UC_KIND_Q7 => Kind::Fraction,
        sys::UC_KIND_NUMBER => Kind::Number,
        sys::UC_KIND_SEGMENTS => Kind::Segments,
        sys::UC_KIND_WORD => Kind::Word,
        sys::UC_KIND_FLAG => Kind::Flag,
        sys::UC_KIND_US => Kind::Microseconds,
        sys::UC_KIND_NS => Kind::Nanoseconds,
        sys::UC_KIND_BYTES => Kind::Bytes,
        sys::UC_KIND_RATE => Kind::Rate,
        other => unreachable!("core/parameter.h has a kind {other} that parameter.rs lacks"),
    }
}
