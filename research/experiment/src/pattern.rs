//! Who sends to whom where every host does both: `pattern` of `[[case.guests]]`, in a `switch`.

use serde::{Deserialize, Serialize};

/// Which hosts the hosts of a switch send to. N hosts are numbered from 0; a group's guest `i` is on
/// host `i`, but for `fan-in`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Host i sends to the hosts i + k mod N for each k of the list, in its order. Of several, each
    /// gets one transfer, which starts when the last one has finished.
    Stride(Vec<u32>),
    /// Every host sends a transfer to each of the others, in an order drawn at random.
    Shuffle {
        /// How many of a flow's transfers go on at once, at most. Default 1.
        #[serde(default = "one")]
        parallel: u32,
    },
    /// Each transfer is to another host, drawn uniformly at random.
    Random,
    /// The guests are on the hosts other than `to`, in the order of their numbers, and all send to
    /// it.
    FanIn {
        /// The receiving host.
        to: u32,
    },
}

impl Pattern {
    /// Its name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Pattern::Stride(_) => "stride",
            Pattern::Shuffle { .. } => "shuffle",
            Pattern::Random => "random",
            Pattern::FanIn { .. } => "fan-in",
        }
    }
}

fn one() -> u32 {
    1
}
