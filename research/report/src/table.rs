//! The verdicts as a plain table, at most [`COLUMNS`] wide.

use uc_experiment::Outcome;

use crate::Report;
use crate::numbers::{found, number};
use crate::{group_table, run_set, transfer_table, unit, words};

/// Maximum width of a printed line, in characters.
pub const COLUMNS: usize = 100;

const GAP: &str = "  ";

/// Minimum width of the first column, the names.
const NAME_MIN: usize = 18;

/// Formats a title, one line per verdict (more where its name is long), a summary, and remarks on verdicts. Without
/// expectations, the numbers of the groups and their transfers take the verdicts' place.
pub fn table(report: &Report<'_>) -> String {
    let header = [
        "expectation",
        "paper",
        "ours ± SE",
        "n",
        "expected",
        "basis",
        "verdict",
    ]
    .map(String::from);
    let mut rows = vec![header];
    let is_judged = !report.experiment.expects.is_empty();
    for verdict in report.verdicts() {
        rows.push([
            words::verdict(verdict),
            verdict.paper.map_or_else(|| "–".into(), number),
            found(verdict),
            verdict.n.to_string(),
            verdict.expect.to_string(),
            words::basis(verdict),
            shown(verdict.outcome),
        ]);
    }
    let mut lines = wrap(&title(report), COLUMNS);
    lines.extend(wrap(&circumstances(report), COLUMNS));
    lines.push(String::new());
    if is_judged {
        lines.extend(grid(&rows));
        lines.push(words::tally(report));
    } else {
        let sets = run_set::sets(report);
        let rate = unit::of_rate(&sets);
        let a_flow = format!("{} a flow", rate.name);
        let header = [
            "case",
            "group",
            "flows",
            &a_flow,
            "drops/run",
            "marks/run",
            "timeouts/run",
            "ECN",
        ];
        let mut groups = vec![header.map(String::from)];
        groups.extend(group_table::rows(&sets, rate));
        lines.extend(grid(&groups));
        let transfers = transfer_table::rows(&sets);
        if transfers.len() > 1 {
            lines.extend(grid(&transfers));
        }
    }
    for remark in words::remarks(report) {
        lines.extend(wrap(&remark, COLUMNS));
    }
    for unjudged in &report.evaluation.unjudged {
        let text = format!("not judged: {} {}", unjudged.name, unjudged.why);
        lines.extend(wrap(&text, COLUMNS));
    }
    text(&lines)
}

/// Joins lines, without the spaces at their ends.
pub(crate) fn text(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Aligns rows, the header first, between two rules: the first cell to the left, in several lines if
/// it is long, the others to the right.
pub(crate) fn grid<const CELLS: usize>(rows: &[[String; CELLS]]) -> Vec<String> {
    let mut widths = [0; CELLS];
    for (column, width) in widths.iter_mut().enumerate() {
        *width = rows
            .iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0);
    }
    let others: usize = widths[1..].iter().sum::<usize>() + (CELLS - 1) * GAP.len();
    widths[0] = widths[0].min(COLUMNS.saturating_sub(others)).max(NAME_MIN);
    let rule = "─".repeat(widths.iter().sum::<usize>() + (CELLS - 1) * GAP.len());
    let mut lines = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        lines.extend(row_lines(row, &widths));
        if i == 0 {
            lines.push(rule.clone());
        }
    }
    lines.push(rule);
    lines
}

/// Formats an outcome, in capitals if it makes the run fail.
fn shown(outcome: Outcome) -> String {
    let word = outcome.to_string();
    if outcome.passes() {
        word
    } else {
        word.to_uppercase()
    }
}

fn title(report: &Report<'_>) -> String {
    format!("{} · {}", report.experiment.name, report.experiment.title)
}

fn circumstances(report: &Report<'_>) -> String {
    let meta = report.meta;
    format!(
        "{} · {} · seed {} · {}",
        words::arm(&meta.arm),
        words::extent(report),
        meta.seed,
        meta.commit
    )
}

fn row_lines<const CELLS: usize>(row: &[String; CELLS], widths: &[usize; CELLS]) -> Vec<String> {
    let mut lines = Vec::new();
    for (i, name) in wrap(&row[0], widths[0]).into_iter().enumerate() {
        let mut line = format!("{name:<width$}", width = widths[0]);
        if i == 0 {
            for (cell, width) in row[1..].iter().zip(&widths[1..]) {
                line.push_str(&format!("{GAP}{cell:>width$}"));
            }
        }
        lines.push(line);
    }
    lines
}

/// Breaks text at spaces, and inside words only if a word alone is longer than a line; returns at least one line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let used = lines.last().map_or(0, |line| line.chars().count());
        let space = usize::from(used > 0);
        if used + space + word.chars().count() > width && used > 0 {
            lines.push(String::new());
        }
        for (i, c) in word.chars().enumerate() {
            let Some(line) = lines.last_mut() else {
                continue;
            };
            if i == 0 && !line.is_empty() {
                line.push(' ');
            }
            if line.chars().count() >= width {
                lines.push(c.to_string());
            } else {
                line.push(c);
            }
        }
    }
    lines
}
