//! Judges simulated records again by runs with other seeds. The records' own seed could have been chosen for its
//! results.

use anyhow::Result;
use statrs::distribution::{Binomial, DiscreteCDF};
use uc_experiment::{Evaluation, Outcome, Values, Verdict};

use super::sitting;
use crate::batch::Batch;
use crate::records::Kept;

/// Number of rows of which one may change its verdict.
const ONE_IN: usize = 100;
/// Probability with which a part of the records does not stand although one in `ONE_IN` of all rows changes.
const FALSE_ALARM: f64 = 0.001;

/// Numbers of rows that were judged again, that changed their verdict, and that changed it from holds to fails.
pub(super) struct Rows {
    whole: bool,
    judged: usize,
    changed: usize,
    refuted: usize,
}

impl Rows {
    /// Creates the numbers of no rows. `whole`: all records are going to be judged, not only a part of them.
    pub(super) fn of(whole: bool) -> Self {
        Self {
            whole,
            judged: 0,
            changed: 0,
            refuted: 0,
        }
    }

    /// Simulates the record's experiment with the batch's seeds, and the file's number of repetitions. Returns lines to
    /// print: a summary, then one for each row whose verdict changes.
    ///
    /// # Errors
    /// [`Kept::evaluation`] failed, or a run did.
    pub(super) fn judge(&mut self, kept: &Kept, batch: &Batch) -> Result<Vec<String>> {
        let known = kept.evaluation()?;
        let (_, fresh) = sitting::complete(kept, batch, Values::default(), |_| Ok(()))?;
        let Some(fresh) = fresh else {
            self.whole = false;
            return Ok(vec!["not judged: the time was up".to_owned()]);
        };
        let changes = changes(&known, &fresh);
        self.judged += fresh.verdicts.len();
        self.changed += changes.len();
        let refuted = changes
            .iter()
            .filter(|(was, now)| *was == Some(Outcome::Holds) && now.outcome == Outcome::Fails);
        self.refuted += refuted.count();
        let all = fresh.verdicts.len();
        let mut lines = vec![format!("{} of {all} rows change", changes.len())];
        lines.extend(changes.iter().map(|(was, now)| line(*was, now)));
        Ok(lines)
    }

    /// Returns whether the records stand: no verdict changes from holds to fails, and no more verdicts change than
    /// permitted.
    pub(super) fn stand(&self) -> bool {
        self.refuted == 0 && self.changed <= self.permitted()
    }

    /// Returns how many rows may change: one in `ONE_IN` of all rows. Of a part of them more can change by chance; so
    /// many that their number refutes that one in `ONE_IN` of all rows changes (one-sided binomial test) are too many.
    fn permitted(&self) -> usize {
        if self.whole {
            return self.judged / ONE_IN;
        }
        let chance = Binomial::new(1.0 / ONE_IN as f64, self.judged as u64).expect("a probability");
        chance.inverse_cdf(1.0 - FALSE_ALARM) as usize
    }

    /// Describes the numbers of rows and of changed verdicts in a sentence.
    pub(super) fn summary(&self) -> String {
        let Rows {
            judged,
            changed,
            refuted,
            ..
        } = self;
        let verdict = if self.stand() {
            "stand"
        } else {
            "do not stand"
        };
        format!(
            "{changed} of {judged} rows change their verdict, {refuted} from holds to fails: the records {verdict}"
        )
    }
}

/// Returns the new verdicts that differ from the record's, each with the record's outcome; `None`: the record lacks it.
fn changes<'a>(known: &Evaluation, fresh: &'a Evaluation) -> Vec<(Option<Outcome>, &'a Verdict)> {
    let was = |now: &Verdict| {
        let mut known = known.verdicts.iter();
        let same = known.find(|known| known.name == now.name && known.at == now.at);
        same.map(|known| known.outcome)
    };
    let pairs = fresh.verdicts.iter().map(|now| (was(now), now));
    pairs
        .filter(|(was, now)| *was != Some(now.outcome))
        .collect()
}

/// Describes a row whose verdict changes.
fn line(was: Option<Outcome>, now: &Verdict) -> String {
    let at: String = now
        .at
        .iter()
        .map(|(axis, label)| format!(", {axis} {label}"))
        .collect();
    let was = was.map_or_else(|| "not in the record".to_owned(), |was| was.to_string());
    let ours = match (now.ours, now.interval) {
        (Some(mean), Some([low, high])) => format!("{mean:.4} ({low:.4} to {high:.4})"),
        (Some(mean), None) => format!("{mean:.4}"),
        _ => now.why.clone().unwrap_or_default(),
    };
    format!(
        "  {}{at}: {was}, now {}: {ours} in {} runs, bar {}",
        now.name, now.outcome, now.n, now.expect
    )
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn one_row_of_a_hundred_may_change_and_in_a_part_what_chance_allows_and_none_may_fail() {
        let stand = |whole, judged, changed, refuted| {
            let rows = Rows {
                whole,
                judged,
                changed,
                refuted,
            };
            rows.stand()
        };
        assert!(stand(true, 100, 1, 0) && stand(true, 1_741, 17, 0));
        assert!(!stand(true, 25, 1, 0) && !stand(true, 1_741, 18, 0));
        // with 1 % of all rows changed, 3 or fewer of 43 change with a probability of 0.9991, 2 or fewer of 0.991
        assert!(stand(false, 43, 3, 0) && stand(false, 0, 0, 0));
        assert!(!stand(false, 43, 4, 0) && !stand(false, 4, 2, 0));
        assert!(!stand(true, 1_000, 1, 1) && !stand(false, 43, 1, 1));
    }
}
