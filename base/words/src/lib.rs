//! The words that every file and command shares: quantities with their units, and what is said of a
//! word that is not known.

pub mod units;
pub mod wording;

pub use units::{BitsPerSec, Bytes, Nanos, UnitError};
