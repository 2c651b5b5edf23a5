//! The words that every file and command shares: quantities with their units, suggestions that follow
//! an unknown word, places in a file, and one hash of texts.

pub mod fnv;
#[cfg(feature = "file")]
pub mod place;
pub mod units;
#[cfg(feature = "file")]
pub mod wording;

pub use units::{BitsPerSec, Bytes, Nanos, UnitError};
