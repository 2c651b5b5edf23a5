//! Guests whose host has fewer processors than guests: `stall`.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// A host that gives its processor to one of `of` guests after the other, a slice each. A guest runs
/// for one slice and then stands still for `of` − 1: its clock goes on, its timers expire, and what
/// reaches it waits. Guests of a case take their turns in the file's order, so that `of` of them
/// share one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// How long a guest runs at a time.
    pub slice: Nanos,
    /// Among how many.
    pub of: u32,
}

impl Stall {
    /// From one turn of a guest to its next.
    pub fn round_ns(self) -> u64 {
        self.slice.0.saturating_mul(u64::from(self.of))
    }
}
