//! The words that every file and command shares: quantities with their units, and the suggestions
//! that follow an unknown word.

pub mod units;
#[cfg(feature = "file")]
pub mod wording;

pub use units::{BitsPerSec, Bytes, Nanos, UnitError};
