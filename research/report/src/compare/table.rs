//! The comparison as plain text.

use uc_experiment::{Change, Compared};

use super::{Sides, alone, chance, difference, interval, left_out, mean, name, origin, tally};
use crate::table::{COLUMNS, grid, text, wrap};

/// Formats where both results come from, one line per measure, and what was left out.
pub fn table(sides: &Sides<'_>) -> String {
    let comparison = sides.comparison;
    let mut lines = Vec::new();
    for (term, [a, b]) in origin(sides) {
        if a == b {
            lines.extend(wrap(&format!("{term}: {a}"), COLUMNS));
        } else {
            lines.extend(wrap(&format!("{term}: A {a} | B {b}"), COLUMNS));
        }
    }
    lines.push(String::new());
    let header = [
        "measure",
        "n",
        "mean A",
        "mean B",
        "B − A",
        "95 % interval",
        "verdict",
    ];
    let mut rows = vec![header.map(String::from)];
    rows.extend(comparison.compared.iter().map(row));
    lines.extend(grid(&rows));
    lines.push(tally(comparison));
    if let Some(remark) = chance(comparison) {
        lines.extend(wrap(&remark, COLUMNS));
    }
    for left in &comparison.left_out {
        lines.extend(wrap(&left_out(left), COLUMNS));
    }
    for sentence in alone(comparison) {
        lines.extend(wrap(&sentence, COLUMNS));
    }
    text(&lines)
}

fn row(row: &Compared) -> [String; 7] {
    let verdict = row.change.words(&row.measure);
    let verdict = match row.change {
        Change::More | Change::Less => verdict.to_uppercase(),
        Change::Same | Change::Unknown => verdict.to_owned(),
    };
    [
        name(&row.measure, &row.at),
        row.difference.n.to_string(),
        mean(row.means[0]),
        mean(row.means[1]),
        difference(row),
        interval(row),
        verdict,
    ]
}
