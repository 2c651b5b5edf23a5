//! Numbers of packets by reason, and whether a new policy increases the share of a reason too much.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uc_policy::Canary;

/// Number of standard deviations by which a count may differ from the expected count. Packets of one flow have the same
/// reason, so counts vary more than those of independent events; hence more than the usual two.
const DEVIATIONS: f64 = 3.0;
/// Number of packets that are allowed beyond the expected count and its deviations, because a few packets decide
/// nothing.
const FEW: f64 = 10.0;

/// Numbers of packets, keyed by the label of the reason why they were translated, passed or dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Returns the packets that were counted since `other`; `None` if a counter began again at 0 meanwhile.
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

    /// Returns why the new policy, with these packets, is worse than the former one, with those in `before`: the share
    /// of a reason that `canary.worse` names has risen by more than the factor there. `None` if it is not worse.
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

    /// Adds the numbers of packets of `more`, reason by reason.
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

/// Returns the largest count that is plausible by chance if `expected` is expected.
fn above(expected: f64) -> f64 {
    expected + DEVIATIONS * expected.sqrt()
}

impl FromIterator<(String, u64)> for Tally {
    fn from_iter<T: IntoIterator<Item = (String, u64)>>(counts: T) -> Self {
        Self(counts.into_iter().collect())
    }
}
