//! Packets by reason, and whether a policy makes too many of one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uc_policy::Canary;

/// Standard deviations of a count by which it may differ from what is expected. Packets of one flow have
/// the same reason, so counts vary more than those of independent events; hence more than the usual two.
const DEVIATIONS: f64 = 3.0;
/// Packets by which a count may exceed that, too: a few decide nothing.
const FEW: f64 = 10.0;

/// Numbers of packets by their reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Returns what was counted since another tally; `None` if a counter began again meanwhile.
    pub fn since(&self, other: &Tally) -> Option<Tally> {
        if other
            .0
            .iter()
            .any(|(reason, &count)| count > self.of(reason))
        {
            return None;
        }
        let each = self.0.iter();
        let since = each.map(|(reason, &count)| (reason.clone(), count - other.of(reason)));
        Some(Tally(since.collect()))
    }

    /// Returns why these packets are worse than those `before`, if they are: of a reason that the
    /// policy names, its share has risen by more than the factor there.
    pub fn worse_than(&self, before: &Tally, canary: &Canary) -> Option<String> {
        let [all, all_before] = [self.all(), before.all()].map(|count| count as f64);
        if all_before == 0.0 {
            return None;
        }
        canary.worse.iter().find_map(|&(reason, factor)| {
            let reason = reason.label();
            let (got, had) = (self.of(reason), before.of(reason));
            let share = above(had as f64) / all_before;
            if got as f64 <= above(factor * share * all) + FEW {
                return None;
            }
            Some(format!(
                "{reason}: {got} of {all} packets, before {had} of {all_before}, and canary.worse \
                 allows {factor} times the share"
            ))
        })
    }

    /// Adds the packets of another tally.
    pub fn add(&mut self, more: &Tally) {
        for (reason, count) in &more.0 {
            *self.0.entry(reason.clone()).or_default() += count;
        }
    }

    fn of(&self, reason: &str) -> u64 {
        self.0.get(reason).copied().unwrap_or_default()
    }

    fn all(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Returns the largest count that chance makes of an expected one.
fn above(expected: f64) -> f64 {
    expected + DEVIATIONS * expected.sqrt()
}

impl FromIterator<(String, u64)> for Tally {
    fn from_iter<T: IntoIterator<Item = (String, u64)>>(counts: T) -> Self {
        Self(counts.into_iter().collect())
    }
}
