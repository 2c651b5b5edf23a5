//! Compares kept values with new ones: each number, or only verdicts and intervals.

use uc_experiment::{Evaluation, Outcome, Point, Row, Values, Verdict};

/// Returns a sentence for each row that differs: first in the order of the new values, then the rows that only the
/// record has.
pub(super) fn values(kept: &Values, fresh: &Values, points: &[Point]) -> Vec<String> {
    let mut found = Vec::new();
    for row in fresh.rows() {
        let known = kept.row(row.point, &row.measure);
        if known.map(|known| &known.runs) != Some(&row.runs) {
            found.push(format!("{}: {}", name(row, points), difference(known, row)));
        }
    }
    for row in kept.rows() {
        if fresh.row(row.point, &row.measure).is_none() {
            found.push(format!("{}: no expectation needs it", name(row, points)));
        }
    }
    found
}

fn difference(known: Option<&Row>, fresh: &Row) -> String {
    let Some(known) = known else {
        return "not in the record".to_owned();
    };
    if known.runs.len() != fresh.runs.len() {
        let (before, now) = (known.runs.len(), fresh.runs.len());
        return format!("{before} repetitions, now {now}");
    }
    let mut pairs = known.runs.iter().zip(&fresh.runs);
    let differs = pairs.find(|(before, now)| before != now);
    let ((run, before), (_, now)) = differs.unwrap_or(((&0, &Ok(0.0)), (&0, &Ok(0.0))));
    let text = |value: &Result<f64, String>| match value {
        Ok(number) => number.to_string(),
        Err(why) => why.clone(),
    };
    format!("repetition {run} was {}, is {}", text(before), text(now))
}

/// Returns a name for a row of a record: its measure and its point of the sweep.
fn name(row: &Row, points: &[Point]) -> String {
    let mut text = uc_report::measure(&row.measure);
    let point = points.iter().find(|point| point.number == row.point);
    for (axis, label) in point.into_iter().flat_map(|point| &point.labels) {
        text.push_str(&format!(", {axis} {label}"));
    }
    text
}

/// Returns a sentence for each verdict of new runs that contradicts the record's: it is the opposite, or the 95 %
/// intervals of the two means do not overlap, or the record lacks it.
pub(super) fn verdicts(kept: &Evaluation, fresh: &Evaluation) -> Vec<String> {
    let contradiction = |fresh: &Verdict| -> Option<String> {
        let same = |kept: &&Verdict| kept.name == fresh.name && kept.at == fresh.at;
        let known = kept.verdicts.iter().find(same);
        let Some(known) = known else {
            return Some(format!("{}: not in the record", fresh.name));
        };
        let decided = known.outcome != Outcome::Undecided && fresh.outcome != Outcome::Undecided;
        if decided && known.outcome != fresh.outcome {
            let (before, now) = (known.outcome, fresh.outcome);
            return Some(format!("{}: {before}, now {now}", fresh.name));
        }
        let [low, high] = known.interval?;
        let [least, most] = fresh.interval?;
        (high < least || most < low).then(|| {
            format!(
                "{}: 95 % interval {low} to {high}, now {least} to {most}",
                fresh.name
            )
        })
    };
    fresh.verdicts.iter().filter_map(contradiction).collect()
}
