//! Rates, durations and sizes as people write them: a number with its unit, and never without.
//!
//! `10Mbit`, `250us`, `90000B`, `64KiB`. Decimal prefixes are powers of 1000, `Ki`, `Mi` and `Gi`
//! powers of 1024. A fraction is accepted where it comes to a whole number of the base unit
//! (`0.25ms`). Printing gives the shortest spelling that parses back to the same number.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

#[cfg(feature = "file")]
mod file;

/// A quantity that was written wrongly; the message names the value and gives a good example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a {what}: {why}; write for example \"{example}\"")]
pub struct UnitError {
    /// The text that could not be parsed.
    pub value: String,
    /// The quantity that was expected: "rate", "duration" or "size".
    pub what: &'static str,
    /// Why the text is not such a quantity.
    pub why: String,
    /// A text that would be accepted.
    pub example: &'static str,
}

/// One dimension: its name, its largest number, its units from the largest to the base unit.
struct Dimension {
    what: &'static str,
    example: &'static str,
    max: u64,
    units: &'static [(&'static str, u64)],
}

const RATE: Dimension = Dimension {
    what: "rate",
    example: "10Mbit",
    max: u64::MAX,
    units: &[
        ("Gbit", 1_000_000_000),
        ("Mbit", 1_000_000),
        ("kbit", 1_000),
        ("bit", 1),
    ],
};

const DURATION: Dimension = Dimension {
    what: "duration",
    example: "250us",
    max: u64::MAX,
    units: &[
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ],
};

const SIZE: Dimension = Dimension {
    what: "size",
    example: "1500B",
    max: u32::MAX as u64,
    units: &[
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("kB", 1_000),
        ("B", 1),
    ],
};

impl Dimension {
    fn error(&self, value: &str, why: impl Into<String>) -> UnitError {
        UnitError {
            value: value.into(),
            what: self.what,
            why: why.into(),
            example: self.example,
        }
    }

    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        if number.is_empty() {
            return Err(self.error(text, "its text does not begin with a number"));
        }
        if unit.is_empty() {
            return Err(self.error(text, "the unit after the number is missing"));
        }
        let Some(&(_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            let known: Vec<&str> = self.units.iter().rev().map(|(name, _)| *name).collect();
            return Err(self.error(text, format!("its unit is not one of {}", known.join(", "))));
        };
        let value = scale(number, factor).map_err(|why| self.error(text, why))?;
        if value > self.max {
            return Err(self.error(text, "the value is too large"));
        }
        Ok(value)
    }

    fn print(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&&(_, factor): &&(&str, u64)| value.is_multiple_of(factor) && value != 0;
        match self
            .units
            .iter()
            .filter(fits)
            .min_by_key(|(_, factor)| value / factor)
        {
            Some((name, factor)) => write!(f, "{}{name}", value / factor),
            None => write!(f, "0{}", self.units[self.units.len() - 1].0),
        }
    }
}

/// Returns `number` (digits, perhaps with one point) times `factor`, exactly; an error if that is not a whole number,
/// or too large.
fn scale(number: &str, factor: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.contains('.') {
        return Err("its number is malformed");
    }
    // Nine digits reach from the largest unit to the base; more can't come to a whole number.
    if fraction.len() > 9 || whole.len() > 20 {
        return Err("its number has too many digits");
    }
    let digits: u128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| "its number has too many digits")?;
    let scaled = digits * u128::from(factor);
    let divisor = 10u128.pow(fraction.len() as u32);
    if !scaled.is_multiple_of(divisor) {
        return Err("it is not a whole number of the smallest unit");
    }
    u64::try_from(scaled / divisor).map_err(|_| "the value is too large")
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($base:ty), $dimension:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $base);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $dimension.print(self.0.into(), f)
            }
        }

        impl FromStr for $name {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                // The dimension's largest number fits the base type.
                $dimension.parse(text).map(|value| Self(value as $base))
            }
        }
    };
}

quantity!(
    /// A rate in bits per second: `10Mbit`, `1Gbit`, `500kbit`, `9600bit`.
    BitsPerSec(u64),
    RATE
);
quantity!(
    /// A duration or a point in time, in nanoseconds: `37s`, `100ms`, `250us`, `40ns`. The caller
    /// chooses the zero of points in time.
    Nanos(u64),
    DURATION
);
quantity!(
    /// A size in bytes, below 4 GiB: `90000B`, `1MB` (10⁶), `64KiB` (2¹⁶).
    Bytes(u32),
    SIZE
);

impl BitsPerSec {
    /// Returns a rate of `mbit` million bits per second.
    pub const fn from_mbit(mbit: u64) -> BitsPerSec {
        BitsPerSec(mbit * 1_000_000)
    }
}

impl Nanos {
    /// The start of a run, or an empty duration.
    pub const ZERO: Nanos = Nanos(0);
    /// The largest time, which is later than every event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Returns the time span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// Returns the time span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// Returns the time span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// Returns the span from `earlier` to `self`; zero if `earlier` is the later one.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the duration in seconds, for figures and rates; never for the order of events.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;

    /// Saturates: an event that would lie beyond the end of time lies at its end.
    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}
