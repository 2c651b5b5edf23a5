//! The kept record of the theorems, `results/verify`: random cases, and the tables of docs/theorems.md.
//!
//! A part of the record has rows, and a row depends on nothing but its number. So the record can be tested by computing
//! a few rows again.

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use uc_core::COMPILED;

use crate::campaign::Campaign;
use crate::law::{Guest, Law};
use crate::lift::{self, Assumption};
use crate::matrix;
use crate::rounds;
use crate::smallest::{Reason, smallest};

/// Seed from which the record's tables are computed.
const SEED: u64 = 1;
/// Cases and flows for each law and guest of `uc-bench verify --table`.
pub const TABLE_CASES: u64 = 40;
/// Flows for each assumption of `uc-bench verify --lift`.
pub const LIFT_CASES: u64 = 100;
/// Random cases of a row, and seeds for each law and guest, from 1.
const CASES: u64 = 2_000;
const SEEDS: usize = 50;

/// Formats rows as a table in Markdown.
type Show = fn(&[&str]) -> serde_json::Result<String>;

/// A part of the record: a file whose lines are rows, as JSON objects.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Name of the file in `results`, without its ending.
    pub name: &'static str,
    /// Number of rows of this part of the record.
    pub rows: usize,
    make: fn(usize) -> serde_json::Result<String>,
    show: Option<Show>,
}

/// All parts of the record of the theorems.
pub const PARTS: [Part; 4] = [
    Part {
        name: "verify/cases",
        rows: Law::ALL.len() * Guest::ALL.len() * SEEDS,
        make: |number| serde_json::to_string(&cases(number)),
        show: None,
    },
    Part {
        name: "verify/table",
        rows: matrix::ROWS,
        make: |number| serde_json::to_string(&matrix::row(SEED, TABLE_CASES, number)),
        show: Some(|rows| Ok(matrix::table(&read(rows)?))),
    },
    Part {
        name: "verify/lift",
        rows: Assumption::ALL.len(),
        make: |number| serde_json::to_string(&lift::row(SEED, LIFT_CASES, Assumption::ALL[number])),
        show: Some(|rows| Ok(lift::table(&read(rows)?))),
    },
    Part {
        name: "verify/smallest",
        rows: Law::ALL.len() * Reason::ALL.len(),
        make: |number| serde_json::to_string(&smallest_case(number)),
        show: Some(|rows| {
            let cases: Vec<SmallestCase> = read(rows)?;
            Ok(cases.iter().map(|case| rounds::table(&case.rows)).collect())
        }),
    },
];

impl Part {
    /// Makes the row of this number, below `rows`, as a JSON object on one line.
    ///
    /// # Errors
    /// A number that JSON cannot have.
    pub fn row(&self, number: usize) -> serde_json::Result<String> {
        (self.make)(number)
    }

    /// Formats rows as a table in Markdown; `None` for a part that is no table.
    ///
    /// # Errors
    /// The rows do not have this part's columns.
    pub fn table(&self, rows: &[&str]) -> Option<serde_json::Result<String>> {
        self.show.map(|show| show(rows))
    }
}

fn read<'a, T: Deserialize<'a>>(rows: &[&'a str]) -> serde_json::Result<Vec<T>> {
    rows.iter().map(|row| serde_json::from_str(row)).collect()
}

/// The random cases that one seed draws.
#[derive(Debug, Serialize)]
struct Cases {
    law: &'static str,
    guest: &'static str,
    seed: u64,
    cases: u64,
    exact: u64,
    beyond_guest: u64,
    at_one_segment: u64,
    probe_taken: u64,
    events: u64,
}

fn cases(number: usize) -> Cases {
    let pair = number / SEEDS;
    let campaign = Campaign {
        law: Law::ALL[pair / Guest::ALL.len()],
        guest: Guest::ALL[pair % Guest::ALL.len()],
        seed: 1 + (number % SEEDS) as u64,
        cases: CASES,
        jobs: 1,
        handover: false,
    };
    // nothing cancels it; without a report no case is exact
    let report = campaign.run(COMPILED, &|_| {}, &AtomicBool::new(false));
    let report = report.unwrap_or_default();
    Cases {
        law: campaign.law.name(),
        guest: campaign.guest.name(),
        seed: campaign.seed,
        cases: campaign.cases,
        exact: report.exact,
        beyond_guest: report.beyond_guest,
        at_one_segment: report.at_one_segment,
        probe_taken: report.probe_taken,
        events: report.events,
    }
}

/// The smallest case in which f's window exceeds the guest's own.
#[derive(Debug, Serialize, Deserialize)]
struct SmallestCase {
    law: String,
    reason: String,
    /// Number of transmissions behind the SYN; 0 without such a case.
    transmissions: u32,
    rows: Vec<rounds::Row>,
}

fn smallest_case(number: usize) -> SmallestCase {
    let law = Law::ALL[number / Reason::ALL.len()];
    let reason = Reason::ALL[number % Reason::ALL.len()];
    let plan = smallest(law, reason);
    SmallestCase {
        law: law.name().to_owned(),
        reason: reason.name().to_owned(),
        transmissions: plan.as_ref().map_or(0, |plan| plan.packets - 1),
        rows: plan.map_or_else(Vec::new, |plan| rounds::rows(&plan, law, COMPILED)),
    }
}
