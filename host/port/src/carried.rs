//! What an upgrade of the programs did, and what it had to leave.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::handover::obstacle::LeftFlow;

/// What became of the ports at an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// Nothing was pinned; now new programs and maps are.
    Fresh,
    /// The programs of the store's object were in force already.
    Current,
    /// Every port has the new programs, and they have the old ones' maps: flows go on, and plans
    /// are in force as they were.
    Swapped,
    /// Every port has the new programs, and maps of a new layout, to which flows and plans have gone over.
    Carried(Carried),
    /// Every port has the new programs and empty maps of a new layout: flows under way pass untouched, and
    /// only the plans that were given are in force.
    Replaced {
        /// Why the old maps can't be carried over, in words.
        why: String,
    },
}

impl Upgrade {
    /// Returns what was lost, in sentences for an operator.
    pub fn losses(&self) -> Vec<String> {
        match self {
            Upgrade::Fresh | Upgrade::Current | Upgrade::Swapped => Vec::new(),
            Upgrade::Carried(carried) => carried.losses(),
            Upgrade::Replaced { why } => vec![format!(
                "{why}: flows under way pass untouched, and ports that no policy names have no law; detach \
                 and attach those"
            )],
        }
    }
}

/// What an upgrade to another layout took along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Number of flows that go on.
    pub flows: usize,
    /// Flows that do not.
    pub left: Vec<LeftFlow>,
    /// Names of fields that this version lacks; what they held is lost.
    pub dropped: Vec<String>,
    /// Longest time between a flow's last copy and the new programs: what passed then is unseen.
    pub unseen: Duration,
}

impl Carried {
    /// Returns what was lost, in sentences for an operator.
    pub(crate) fn losses(&self) -> Vec<String> {
        let mut kinds: BTreeMap<String, Vec<&LeftFlow>> = BTreeMap::new();
        for flow in &self.left {
            kinds.entry(flow.why.to_string()).or_default().push(flow);
        }
        let sentence = |(why, flows): (&String, &Vec<&LeftFlow>)| {
            let LeftFlow { guest, remote, .. } = flows[0];
            let count = flows.len();
            format!("{count} flows pass untouched, {guest} to {remote} among them: {why}")
        };
        let mut losses: Vec<String> = kinds.iter().map(sentence).collect();
        if !self.dropped.is_empty() {
            let names = self.dropped.join(", ");
            losses.push(format!(
                "this version of uc keeps less of a flow: not its {names}"
            ));
        }
        losses
    }
}
