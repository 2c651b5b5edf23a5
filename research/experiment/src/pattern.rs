//! Receivers on a single `switch` and in a `fat-tree`, where every host sends and receives: `pattern`
//! of `[[case.guests]]`.

use serde::{Deserialize, Serialize};

/// The receivers of each host. N hosts are numbered from 0; a group's guest `i` is on host `i`, except
/// with `fan-in`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Host i sends to the hosts (i + k) mod N, for each k of the list, in its order. With several k, each receiver
    /// gets one transfer, which starts when the transfer to the receiver before has finished.
    Stride(Vec<u32>),
    /// Every host sends a transfer to each of the others, in an order drawn at random.
    Shuffle {
        /// Maximum number of a flow's transfers at once. Default 1.
        #[serde(default = "one")]
        parallel: u32,
    },
    /// Each transfer goes to another host, drawn uniformly at random.
    Random,
    /// The guests are on the hosts other than `to`, in the order of their numbers, and all send to
    /// `to`.
    FanIn {
        /// Number of the receiving host.
        to: u32,
    },
}

impl Pattern {
    /// Returns the pattern's name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Pattern::Stride(_) => "stride",
            Pattern::Shuffle { .. } => "shuffle",
            Pattern::Random => "random",
            Pattern::FanIn { .. } => "fan-in",
        }
    }

    /// Returns the host of a group's guest number `index`.
    pub fn host(&self, index: u32) -> u32 {
        match self {
            Pattern::FanIn { to } if index >= *to => index + 1,
            _ => index,
        }
    }

    /// Returns the hosts of N that a guest on `host` may send to: in the order in which it does, or
    /// ascending where chance decides.
    pub fn receivers(&self, host: u32, hosts: u32) -> Vec<u32> {
        match self {
            Pattern::Stride(steps) => steps.iter().map(|step| (host + step) % hosts).collect(),
            Pattern::FanIn { to } => vec![*to],
            Pattern::Shuffle { .. } | Pattern::Random => {
                (0..hosts).filter(|&other| other != host).collect()
            }
        }
    }
}

fn one() -> u32 {
    1
}
