//! The words that every file and command shares: quantities with their units, suggestions that follow
//! an unknown word, and one hash of texts.

pub mod fnv;
pub mod units;
#[cfg(feature = "file")]
pub mod wording;

pub use units::{BitsPerSec, Bytes, Nanos, UnitError};
