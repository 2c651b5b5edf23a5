//! Duplicate ACKs that a port sends its guest: `dupack = { short_tails = "0s" }` of a group of guests.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// `dupack`: when a flow has gone silent, its port sends the guest duplicate ACKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dupack {
    /// Shortest silence before duplicate ACKs. Default 5ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Nanos>,
    /// Whether three duplicate ACKs are sent also where fewer than four segments are in flight, and how much longer the
    /// port waits if only one is. If absent, such flows get fewer than three.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_tails: Option<Nanos>,
}

/// Formats the setting in words, to follow the law.
impl fmt::Display for Dupack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(", duplicate ACKs to silent flows")?;
        if let Some(least) = self.least {
            write!(f, " after {least} at least")?;
        }
        match self.short_tails {
            None => Ok(()),
            Some(later) => write!(f, ", to short tails too, to lone segments {later} later"),
        }
    }
}
