//! `uc-bench verify`: verifies that a guest under the core sends what a native sender sends.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use uc_core::COMPILED;
use uc_program::cancel_on_signal;
use uc_verify::record::{LIFT_CASES, TABLE_CASES};
use uc_verify::smallest::{Reason, smallest};
use uc_verify::{Campaign, Class, Guest, Law, Outcome, Plan, Report, Workspace};
use uc_verify::{compare, lift, matrix, rounds, trace};

/// Verify g(T(x)) = f(x): in random cases, a guest under the core must send, segment by segment,
/// what a native sender of the network's law sends.
///
/// Exit status 0 if all cases are exact and every situation occurred in 1 % of them (checked from
/// 1,000 cases on), otherwise 1. A counter-example is minimized and printed as a file for --replay.
/// The same seed gives the same answer, whatever --jobs is.
#[derive(Args)]
pub struct Verify {
    /// The network's law f: the congestion control that the guest's packets must follow
    #[arg(long, value_enum, default_value = "ecn")]
    law: LawName,
    /// The guest's TCP g: the congestion control that runs under the core
    #[arg(long, value_enum, default_value = "newreno")]
    guest: GuestName,
    /// Number of random cases, of about 1,300 events each; with --lift, flows for each assumption;
    /// with --table, cases and flows for each law and guest [default: 10000; with --lift 100, with
    /// --table 40]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    cases: Option<u64>,
    /// Seed from which the cases are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: Option<usize>,
    /// Move the guest's flow in each case, one to four times, to a new port on a host with another
    /// clock, and another version's layout of flows
    #[arg(long, conflicts_with_all = ["replay", "lift", "table", "smallest"])]
    handover: bool,
    /// Print the report as one JSON object
    #[arg(long, conflicts_with_all = ["replay", "lift", "table", "smallest"])]
    json: bool,
    /// Run the case in this file, which an earlier failure printed, and print its events
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cases", "seed", "jobs", "lift"])]
    replay: Option<PathBuf>,
    /// Relax the assumptions one by one and print the difference between the two senders
    #[arg(long, conflicts_with_all = ["law", "guest", "jobs"])]
    lift: bool,
    /// Print a table with a row for each law over each guest's TCP: whether the guest sends exactly what a
    /// native sender would, and by how much the guest's own window stays below that sender's where it does
    /// not
    #[arg(long, conflicts_with_all = ["law", "guest", "jobs", "replay", "lift"])]
    table: bool,
    /// Print the smallest case in which the window of f exceeds the guest's congestion window, so that no
    /// receive window can make the guest send as much: for any reason, or because the slow-start threshold
    /// of f is higher than the guest's
    #[arg(long, value_enum, value_name = "REASON", num_args = 0..=1, default_missing_value = "any",
          conflicts_with_all = ["guest", "jobs", "cases", "seed", "replay", "lift", "table"])]
    smallest: Option<ReasonName>,
}

/// The values of `--smallest`.
#[derive(Clone, Copy, ValueEnum)]
enum ReasonName {
    /// Any reason
    Any,
    /// The slow-start threshold of f is higher than the guest's
    Threshold,
}

/// The values of `--law`.
#[derive(Clone, Copy, ValueEnum)]
enum LawName {
    /// NewReno that reacts to ECN marks as in RFC 3168
    Ecn,
    /// DCTCP (RFC 8257), with a receiver that is a DCTCP receiver
    Dctcp,
}

/// The values of `--guest`.
#[derive(Clone, Copy, ValueEnum)]
enum GuestName {
    /// NewReno that does not negotiate ECN
    #[value(name = "newreno")]
    NewReno,
    /// NewReno with ECN, whose port removes the ECN offer from its SYN
    EcnStripped,
}

/// Minimum number of cases for a check of coverage. With fewer cases, a class that 1 % of cases should have could be
/// missing by chance.
const COVERAGE_CASES_MIN: u64 = 1_000;
/// Number of random cases if --cases is not given.
const CASES: u64 = 10_000;

impl Verify {
    /// Verifies random cases, replays a case, or prints a table or the smallest case. Returns false, for exit status 1,
    /// if a case refutes the theorem.
    pub fn execute(self) -> Result<bool> {
        if let Some(path) = &self.replay {
            return self.replay(path);
        }
        if self.lift {
            let cases = self.cases.unwrap_or(LIFT_CASES);
            out!("{}", lift::table(&lift::rows(self.seed, cases)));
            return Ok(true);
        }
        if self.table {
            let cases = self.cases.unwrap_or(TABLE_CASES);
            out!("{}", matrix::table(&matrix::rows(self.seed, cases)));
            return Ok(true);
        }
        if let Some(reason) = self.smallest {
            return Ok(self.print_smallest(reason));
        }
        let campaign = self.campaign();
        let cancel = cancel_on_signal()?;
        let bar = bar(campaign.cases, "cases");
        let report = campaign.run(COMPILED, &|cases| bar.inc(cases), &cancel);
        bar.finish_and_clear();
        let Some(report) = report else {
            bail!("cancelled by a signal; no result was printed");
        };
        if self.json {
            outln!("{:#}", self.object(&campaign, &report));
        } else {
            self.print(&report);
        }
        if let Some(number) = report.failure {
            self.print_counter_example(&campaign, number);
        }
        Ok(report.failure.is_none() && rare(&report).is_empty())
    }

    fn campaign(&self) -> Campaign {
        Campaign {
            law: match self.law {
                LawName::Ecn => Law::Ecn,
                LawName::Dctcp => Law::Dctcp,
            },
            guest: match self.guest {
                GuestName::NewReno => Guest::NewReno,
                GuestName::EcnStripped => Guest::EcnStripped,
            },
            seed: self.seed,
            cases: self.cases.unwrap_or(CASES),
            jobs: self.jobs.unwrap_or_else(|| {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
            }),
            handover: self.handover,
        }
    }

    fn names(&self) -> (String, String) {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        (
            name(self.law.to_possible_value()),
            name(self.guest.to_possible_value()),
        )
    }

    fn print(&self, report: &Report) {
        let (law, guest) = self.names();
        let moves = if self.handover {
            ", flows that move"
        } else {
            ""
        };
        outln!("law {law}, guest {guest}, seed {}{moves}", self.seed);
        outln!("exact: {} of {} cases", report.exact, report.cases);
        outln!(
            "events compared: {}, {} for each case",
            report.events,
            report.events / report.cases.max(1)
        );
        let ends = [
            ("f's window outgrew the guest's", report.beyond_guest),
            ("ECE at a window of one segment", report.at_one_segment),
            ("a window probe's byte was taken", report.probe_taken),
        ];
        outln!("compared up to the moment where an assumption ended:");
        for (what, count) in ends {
            outln!("  {what:<32} {}", share(count, report.cases));
        }
        outln!("cases with:");
        for (class, &count) in Class::ALL.into_iter().zip(&report.coverage) {
            outln!("  {:<32} {}", class.label(), share(count, report.cases));
        }
        for class in rare(report) {
            outln!("in fewer than 1 % of the cases: {}", class.label());
        }
    }

    fn object(&self, campaign: &Campaign, report: &Report) -> serde_json::Value {
        let (law, guest) = self.names();
        let coverage: serde_json::Map<String, serde_json::Value> = Class::ALL
            .into_iter()
            .zip(&report.coverage)
            .map(|(class, &count)| (class.label().to_owned(), count.into()))
            .collect();
        json!({
            "law": law,
            "guest": guest,
            "seed": campaign.seed,
            "handover": campaign.handover,
            "cases": report.cases,
            "exact": report.exact,
            "events": report.events,
            "ended_early": {
                "beyond_guest": report.beyond_guest,
                "at_one_segment": report.at_one_segment,
                "probe_taken": report.probe_taken,
            },
            "coverage": coverage,
            "uncovered": rare(report).iter().map(|class| class.label()).collect::<Vec<_>>(),
            "counter_example": report.failure,
        })
    }

    /// Prints the smallest case in which the window of f exceeds the guest's congestion window, as a file for
    /// `--replay`. Returns false if it finds none.
    fn print_smallest(&self, reason: ReasonName) -> bool {
        let law = self.campaign().law;
        let reason = match reason {
            ReasonName::Any => Reason::Any,
            ReasonName::Threshold => Reason::Threshold,
        };
        let Some(plan) = smallest(law, reason) else {
            outln!("no small case in which f's window exceeds the guest's own");
            return false;
        };
        let rows = rounds::rows(&plan, law, COMPILED);
        for line in rounds::table(&rows).lines() {
            outln!("# {line}");
        }
        out!("{}", plan.to_toml());
        true
    }

    /// Prints the counter-example with this number as a file for `--replay`; to standard error with --json, so that
    /// standard output is one object.
    fn print_counter_example(&self, campaign: &Campaign, number: u64) {
        let (law, guest) = self.names();
        let plan = campaign.shrink(COMPILED, &campaign.plan(number));
        let mut text = format!(
            "# counter-example: case {number} of seed {}, made smaller\n\
             # repeat with: uc-bench verify --law {law} --guest {guest} --replay FILE\n{}",
            campaign.seed,
            plan.to_toml()
        );
        for line in trace::trace(&plan, campaign.law, campaign.guest, COMPILED).lines() {
            text += &format!("# {line}\n");
        }
        if self.json {
            errln!("{}", text.trim_end());
        } else {
            out!("\n{text}");
        }
    }

    fn replay(&self, path: &Path) -> Result<bool> {
        let place = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(place)?;
        let plan = Plan::parse(&text).with_context(place)?;
        let Campaign { law, guest, .. } = self.campaign();
        out!("{}", trace::trace(&plan, law, guest, COMPILED));
        let outcome = compare(&plan, law, guest, COMPILED, &mut Workspace::default()).outcome;
        match outcome {
            Outcome::Same => outln!("exact"),
            Outcome::Outside(limit) => outln!("exact, up to where an assumption ends: {limit:?}"),
            Outcome::Differs { number, .. } => outln!("transmission {number} differs"),
        }
        Ok(!matches!(outcome, Outcome::Differs { .. }))
    }
}

/// Returns the classes of situations that occurred in less than 1 % of the cases; none if there are fewer than
/// `COVERAGE_CASES_MIN` cases.
fn rare(report: &Report) -> Vec<Class> {
    if report.cases < COVERAGE_CASES_MIN {
        return Vec::new();
    }
    report.uncovered().collect()
}

fn share(count: u64, of: u64) -> String {
    let percent = 100.0 * count as f64 / of.max(1) as f64;
    format!("{count:>8}  {percent:>5.1} %")
}

/// Returns a progress bar for `number` items called `what`; hidden if standard error is no terminal.
pub(super) fn bar(number: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(number).with_style(style);
    bar.set_message(format!("{number} {what}"));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
