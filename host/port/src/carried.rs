//! The result of an upgrade of the programs: what was carried over, and what was lost.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::handover::obstacle::LeftFlow;

/// The result of an upgrade for the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// Nothing was pinned; now new programs and maps are.
    Fresh,
    /// The programs of the store's object were in force already.
    Current,
    /// Every port has the new programs, and these use the maps of the old ones: flows go on, and plans are in force as
    /// they were.
    Swapped,
    /// Every port has the new programs, and maps of a new layout, into which flows and plans were copied.
    Carried(Carried),
    /// Every port has the new programs and empty maps of a new layout: flows under way pass untouched, and
    /// only the plans that were given are in force.
    Replaced {
        /// Why the old maps can't be carried over, in words.
        why: String,
    },
}

impl Upgrade {
    /// Returns what the upgrade lost, in sentences for an operator.
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

/// The result of copying flows to maps with another layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Number of flows that go on under the new version.
    pub flows: usize,
    /// Flows that do not go on, each with the reason.
    pub left: Vec<LeftFlow>,
    /// Names of fields that this version lacks; their values are lost.
    pub dropped: Vec<String>,
    /// Longest time between a flow's last copy and its port's new programs: packets in between did not
    /// change the copied flow.
    pub unseen: Duration,
}

impl Carried {
    /// Returns what the copying lost, in sentences for an operator.
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
