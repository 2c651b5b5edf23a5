//! The results in words.

use uc_experiment::{Measure, Outcome, Verdict};

use crate::Report;
use crate::emulation::Emulation;
use crate::numbers::{number, percent};

/// Formats a count: `1 run`, `20 runs`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Describes the number of runs: `3 runs of every case`, `10 to 40 runs of every case at each of 54
/// points`. Undecided expectations lead to more runs of some cases.
pub(crate) fn extent(report: &Report<'_>) -> String {
    let runs = report.meta.runs as usize;
    let most = report.records.iter().map(|record| record.run as usize + 1);
    let runs = match most.max() {
        Some(most) if most > runs => format!("{runs} to {}", count(most, "run")),
        _ => count(runs, "run"),
    };
    match report.points.len() {
        0 | 1 => format!("{runs} of every case"),
        points => format!("{runs} of every case at each of {points} points"),
    }
}

/// Describes a backend in words.
pub(crate) fn arm(name: &str) -> String {
    match name {
        "sim" => "simulated (sim)".into(),
        "live" => "on real kernels (live)".into(),
        "vm" => "on real kernels, VMs as guests (vm)".into(),
        other => other.into(),
    }
}

/// Returns where the bar of a verdict comes from, or a dash.
pub(crate) fn basis(verdict: &Verdict) -> String {
    let basis = verdict.basis;
    basis.map_or_else(|| "–".into(), |basis| basis.to_string())
}

/// Describes in a sentence how many expectations hold.
pub(crate) fn headline(report: &Report<'_>) -> String {
    let verdicts = report.verdicts();
    let held = report.evaluation.with(Outcome::Holds).count();
    let extent = extent(report);
    match (held, verdicts.len()) {
        (_, 0) => format!("Nothing was expected of {extent}."),
        (2, 2) => format!("Both expectations hold, over {extent}."),
        (1, 1) => format!("What was expected holds, over {extent}."),
        (held, all) if held == all => format!("All {all} expectations hold, over {extent}."),
        _ => format!("{}, over {extent}.", tally(report)),
    }
}

/// Counts the outcomes: `3 of 6 expectations hold, 1 fails, 2 differ`.
pub(crate) fn tally(report: &Report<'_>) -> String {
    let all = report.verdicts().len();
    let of = |outcome| report.evaluation.with(outcome).count();
    let verb = if all == 1 { "holds" } else { "hold" };
    let held = of(Outcome::Holds);
    let mut words = format!("{held} of {} {verb}", count(all, "expectation"));
    for (outcome, one, many) in [
        (Outcome::Fails, "fails", "fail"),
        (Outcome::Undecided, "is undecided", "are undecided"),
        (Outcome::Differs, "differs", "differ"),
        (Outcome::Stale, "is stale", "are stale"),
    ] {
        let verb = if of(outcome) == 1 { one } else { many };
        if of(outcome) > 0 {
            words.push_str(&format!(", {} {verb}", of(outcome)));
        }
    }
    words
}

/// Explains verdicts, in one line each: why a result differs, how wide an interval is that does not decide, what to do
/// with a stale reason. It gives each reason once. The last line is the emulated network's error, if there is one.
pub(crate) fn remarks(report: &Report<'_>) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for verdict in report.verdicts() {
        let name = self::verdict(verdict);
        let remark = match verdict.outcome {
            Outcome::Fails if verdict.hidden_number().is_some() => format!(
                "fails: {name}: more than a quarter off the paper's number; judge it by that number, with \
                 basis = \"paper\", and say in `differs` why it differs"
            ),
            Outcome::Holds | Outcome::Fails => continue,
            Outcome::Undecided => {
                let wide = |[low, high]: [f64; 2]| {
                    let interval = format!("{} to {}", number(low), number(high));
                    format!(", 95 % interval {interval}")
                };
                let is_bound = verdict.steps.is_empty();
                let interval = verdict
                    .interval
                    .filter(|_| is_bound)
                    .map_or_else(String::new, wide);
                let runs = count(verdict.n, "run");
                let late = verdict.late.as_ref();
                let late = late.map_or_else(String::new, |late| format!("; {late}"));
                format!("undecided: {name}: {runs}{interval}{late}")
            }
            Outcome::Differs => {
                let reason = verdict.differs.as_deref().unwrap_or_default();
                format!("differs from the paper: {}: {reason}", verdict.name)
            }
            Outcome::Stale => format!("stale: {name}: it holds; remove `differs` from the file"),
        };
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks.extend(Emulation::of(report).map(|found| found.words()));
    remarks
}

/// Returns the outcome of a verdict in words. Only a result within a bar of the paper can be called reproduced.
pub(crate) fn outcome(verdict: &Verdict) -> String {
    match verdict.reproduced() {
        Some(what) => format!("reproduced ({})", what.key()),
        None => verdict.outcome.to_string(),
    }
}

/// Formats a verdict's name, its point, and, if it has no number, the reason.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let labels = verdict
        .at
        .iter()
        .map(|(axis, label)| format!("{axis} {label}"));
    let labels: Vec<String> = labels.collect();
    let mut words = verdict.name.clone();
    if !labels.is_empty() {
        words.push_str(&format!(" ({})", labels.join(", ")));
    }
    if let Some(why) = &verdict.why {
        words.push_str(&format!(": can't be computed: {why}"));
    }
    words
}

/// Returns one sentence for every share and every retransmitted throughput among the verdicts; none
/// in a sweep, which the figures show better.
pub(crate) fn sentences(report: &Report<'_>) -> Vec<String> {
    let sentence = |verdict: &Verdict| {
        let mut expects = report.experiment.expects.iter();
        let expect = expects.find(|expect| expect.name == verdict.name)?;
        let title = |case: &str| {
            let case = report.experiment.case(case);
            case.map_or_else(String::new, |case| sentence_case(case.title()))
        };
        let ours = percent(verdict.ours?);
        let paper = verdict.paper.map_or_else(String::new, |paper| {
            format!(" (the paper: {})", percent(paper))
        });
        match &expect.measure {
            Measure::Share {
                case,
                of,
                to,
                during: None,
            } => Some(format!(
                "{}: “{of}” got {ours} of the goodput of a mean “{to}” flow{paper}.",
                title(case)
            )),
            Measure::Retransmitted { case } => Some(format!(
                "{}: {ours} of the link carried retransmissions{paper}.",
                title(case)
            )),
            _ => None,
        }
    };
    let plain = report
        .verdicts()
        .iter()
        .filter(|verdict| verdict.at.is_empty());
    plain.filter_map(sentence).collect()
}

/// Formats a measure as in the file: `share of legacy to ecn, case mix`.
pub fn measure(measure: &Measure) -> String {
    if let Measure::Ratio { of, to } = measure {
        return format!("({}) / ({})", self::measure(of), self::measure(to));
    }
    let mut words = measure_kind(measure);
    let groups = measure.groups();
    for (key, group) in &groups {
        words.push_str(&format!(" {key} {group}"));
    }
    let value = serde_json::to_value(measure).unwrap_or_default();
    for (key, value) in value.as_object().into_iter().flatten() {
        let told = key == "kind" || groups.iter().any(|(group, _)| group == key);
        if !told && !value.is_null() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            words.push_str(&format!(", {key} {value}"));
        }
    }
    words
}

/// Returns the measure's kind in words.
pub(crate) fn measure_kind(measure: &Measure) -> String {
    let value = serde_json::to_value(measure).unwrap_or_default();
    let kind = value.get("kind").and_then(serde_json::Value::as_str);
    kind.unwrap_or_default().replace('_', " ")
}

pub(crate) fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
