//! Compares two results: which measures differ, by how much, and how certain each difference is.

mod json;
mod page;
mod scatter;
mod strips;
mod table;

use std::collections::BTreeMap;

pub use json::json;
pub use page::html;
pub use table::table;

use uc_experiment::comparison::Labels;
use uc_experiment::{
    Change, Circumstances, Compared, Comparison, KeptRecord, LeftOut, Measure, Side,
};

use crate::numbers::{number, percent, with_decimals};
use crate::words;

/// Maximum number of measures that are named of those that only one result has.
const NAMES: usize = 6;

/// The two results that are compared, and their names.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// Names of the results A and B, as on the command line.
    pub names: [&'a str; 2],
    /// Command that repeats the comparison.
    pub command: &'a str,
    /// Values of A and B, and their origins.
    pub records: [&'a KeptRecord; 2],
    /// Comparison of B with A.
    pub comparison: &'a Comparison,
}

/// Names a measure at a point: `goodput of g, case c (delay 1ms)`.
fn name(measure: &Measure, at: &Labels) -> String {
    let mut text = words::measure(measure);
    if !at.is_empty() {
        text.push_str(&format!(" ({})", labels(at)));
    }
    text
}

fn labels(at: &Labels) -> String {
    let labels = at.iter().map(|(axis, label)| format!("{axis} {label}"));
    labels.collect::<Vec<_>>().join(", ")
}

/// Formats a mean, with three digits even if it is small.
fn mean(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || size >= 0.1 {
        return number(value);
    }
    let zeros = (-size.log10()).ceil().clamp(0.0, 15.0) as usize;
    with_decimals(value, zeros + 2)
}

/// Formats the difference of the means, in percent of A's mean, or as a number if A's mean is 0.
fn difference(row: &Compared) -> String {
    match row.relative() {
        Some(relative) => signed(relative, percent),
        None => signed(row.difference.mean, number),
    }
}

/// Formats the 95 % interval of the difference, in the unit of [`difference`]; a dash without one.
fn interval(row: &Compared) -> String {
    let text = |interval: Option<[f64; 2]>, form: fn(f64) -> String| {
        let ends = interval.map(|ends| ends.map(|end| signed(end, form)));
        ends.map_or_else(|| "–".into(), |[low, high]| format!("{low} to {high}"))
    };
    match row.relative() {
        Some(_) => text(row.relative_interval(), percent),
        None => text(row.difference.interval, number),
    }
}

/// Formats a number with its sign; 0 has none.
fn signed(value: f64, form: fn(f64) -> String) -> String {
    let text = form(value.abs());
    let is_zero = !text.contains(|digit: char| ('1'..='9').contains(&digit));
    if is_zero {
        text
    } else if value < 0.0 {
        format!("−{text}")
    } else {
        format!("+{text}")
    }
}

/// Counts the judgements: `2 of 9 measures differ, 3 can't say, 4 are the same`.
fn tally(comparison: &Comparison) -> String {
    let all = comparison.compared.len();
    let of = |change| {
        let rows = comparison.compared.iter();
        rows.filter(|row| row.change == change).count()
    };
    let differ = comparison.differing();
    let verb = if differ == 1 { "differs" } else { "differ" };
    let mut text = format!("{differ} of {} {verb}", words::count(all, "measure"));
    for (change, words) in [(Change::Unknown, "can't say"), (Change::Same, "the same")] {
        if of(change) > 0 {
            text.push_str(&format!(", {words}: {}", of(change)));
        }
    }
    text
}

/// States how many measures would differ by chance if the results did not really differ; `None` if no measure differs.
fn chance(comparison: &Comparison) -> Option<String> {
    if comparison.differing() == 0 {
        return None;
    }
    let rows = comparison.compared.iter();
    let uncertain = rows.filter(|row| row.change != Change::Same).count();
    Some(format!(
        "Without any real difference, about {} of {} that are not the same would differ by chance: \
         the intervals are of 95 %.",
        with_decimals(uncertain as f64 * 0.05, 1),
        words::count(uncertain, "measure")
    ))
}

/// Describes the runs of a result that have no partner in the other.
fn left_out(left: &LeftOut) -> String {
    let mut place = format!("case {}", left.cases.join(" and "));
    if !left.at.is_empty() {
        place.push_str(&format!(", {}", labels(&left.at)));
    }
    format!(
        "left out: {place}: {} of {} ({} {}): {}",
        words::count(left.seeds.len(), "run"),
        left.side.letter(),
        if left.seeds.len() == 1 {
            "seed"
        } else {
            "seeds"
        },
        ranges(&left.seeds),
        left.why
    )
}

/// Returns a sentence for each result that has measures which the other lacks; it names the first [`NAMES`] of them.
fn alone(comparison: &Comparison) -> Vec<String> {
    let mut names: BTreeMap<Side, Vec<String>> = BTreeMap::new();
    for alone in &comparison.alone {
        let name = name(&alone.measure, &alone.at);
        names.entry(alone.side).or_default().push(name);
    }
    let sentence = |(side, names): (Side, Vec<String>)| {
        let more = names.len().saturating_sub(NAMES);
        let first: Vec<String> = names.into_iter().take(NAMES).collect();
        let more = match more {
            0 => String::new(),
            more => format!("; and {more} more, which compare.json names"),
        };
        format!("only in {}: {}{more}", side.letter(), first.join("; "))
    };
    names.into_iter().map(sentence).collect()
}

/// Formats ascending numbers as ranges: `1–4, 7`.
fn ranges(numbers: &[u64]) -> String {
    let mut found: Vec<[u64; 2]> = Vec::new();
    for number in numbers {
        match found.last_mut() {
            Some([_, last]) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => found.push([*number, *number]),
        }
    }
    let text = |[first, last]: &[u64; 2]| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}–{last}")
        }
    };
    found.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A term and its value on each side.
type Fact = (&'static str, [String; 2]);

/// Returns where both results come from, term by term. A term that neither has is left out.
fn origin(sides: &Sides<'_>) -> Vec<Fact> {
    let of = |form: &dyn Fn(&KeptRecord) -> Option<String>| {
        sides
            .records
            .map(|record| form(record).unwrap_or_else(|| "–".into()))
    };
    let each = |form: fn(&Circumstances) -> Option<String>| {
        of(&|record: &KeptRecord| {
            let mut found: Vec<String> = Vec::new();
            for text in record
                .sittings
                .iter()
                .filter_map(|one| form(&one.circumstances))
            {
                if !found.contains(&text) {
                    found.push(text);
                }
            }
            (!found.is_empty()).then(|| found.join("; "))
        })
    };
    let load = |circumstances: &Circumstances| {
        let [before, after] = circumstances.load?;
        Some(format!("{before} before, {after} after"))
    };
    let facts = vec![
        ("result", sides.names.map(str::to_owned)),
        (
            "experiment",
            of(&|record| Some(record.head.experiment.clone())),
        ),
        (
            "overrides",
            of(&|record| {
                let set = &record.head.set;
                (!set.is_empty()).then(|| format!("--set {}", set.join(" --set ")))
            }),
        ),
        ("set-up", of(&|record| Some(record.head.setup.clone()))),
        (
            "backend",
            of(&|record| Some(words::arm(record.head.arm.name()))),
        ),
        (
            "first seed",
            of(&|record| Some(record.head.seed.to_string())),
        ),
        ("commit", each(|found| Some(found.commit.clone()))),
        ("core", each(|found| Some(found.core.clone()))),
        ("kernel", each(|found| found.kernel.clone())),
        ("machine", each(|found| found.machine.clone())),
        ("load", each(load)),
    ];
    let is_known = |(_, values): &Fact| values.iter().any(|value| value != "–");
    facts.into_iter().filter(is_known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_formatted_as_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 4, 7, 9, 10]), "1–4, 7, 9–10");
        assert_eq!(ranges(&[u64::MAX]), u64::MAX.to_string());
    }

    #[test]
    fn small_means_keep_three_digits() {
        let shown = [0.000_161_9, 0.018_04, 0.1, 4_782_000.0, 0.0, -0.002].map(mean);
        assert_eq!(
            shown,
            ["0.000162", "0.0180", "0.100", "4.782 M", "0", "-0.00200"]
        );
    }

    #[test]
    fn differences_have_their_sign() {
        assert_eq!(signed(0.0214, percent), "+2.1%");
        assert_eq!(signed(-0.5, percent), "−50.0%");
        assert_eq!(signed(0.0, percent), "0%");
        assert_eq!(signed(-0.000_000_1, percent), "0.00%");
        assert_eq!(signed(-3.0, number), "−3");
    }
}
