//! Who is drawn, and how: flows by what they are, the single ones on top.

use uc_experiment::series::Series;
use uc_experiment::{Case, Experiment, FlowRecord, Law, RunRecord};

use crate::Report;
use crate::chart::Ink;

/// What a group's flows are drawn with, by what they are and not by what they are called.
pub(crate) fn ink(experiment: &Experiment, case: &Case, group: &str) -> Ink {
    let Some(guests) = case.group(group) else {
        return Ink::Faint;
    };
    let asks_for_ecn = experiment
        .stacks
        .get(&guests.stack)
        .is_some_and(|stack| stack.ecn);
    match guests.law {
        Some(Law::Ecn) => Ink::Virtual,
        Some(Law::Pass) | None if asks_for_ecn => Ink::Native,
        Some(Law::Pass) | None => Ink::Legacy,
    }
}

/// Whether a group is a single flow: the one to look at.
pub(crate) fn is_special(case: &Case, group: &str) -> bool {
    case.guests.len() > 1
        && case
            .group(group)
            .is_some_and(|guests| guests.total_flows() == 1)
}

/// The case's flows of its first repetition, the special ones last, so that they lie on top.
pub(crate) fn flows<'a>(report: &Report<'a>, case: &'a Case) -> Vec<&'a FlowRecord> {
    let Some(record) = first_record(report, case) else {
        return Vec::new();
    };
    let mut flows: Vec<&FlowRecord> = record.flows.iter().collect();
    flows.sort_by_key(|flow| is_special(case, &flow.group));
    flows
}

pub(crate) fn first_record<'a>(report: &Report<'a>, case: &Case) -> Option<&'a RunRecord> {
    let records = report
        .records
        .iter()
        .filter(|record| record.case == case.name);
    records.min_by_key(|record| record.run)
}

/// The goodputs of the measured part of the chosen flows in all runs of the case, Mbit/s.
pub(crate) fn goodputs_mbps(
    report: &Report<'_>,
    case: &Case,
    chosen: impl Fn(&FlowRecord) -> bool,
) -> Vec<f64> {
    let measured_ns = report.experiment.measured_ns();
    let records = report
        .records
        .iter()
        .filter(|record| record.case == case.name);
    let flows = records
        .flat_map(|record| &record.flows)
        .filter(|flow| chosen(flow));
    let series = flows.filter_map(|flow| Series::of(flow, &measured_ns));
    series.map(|series| series.goodput_bps() / 1e6).collect()
}

/// The kinds of flow that occur in the experiment.
pub(crate) fn legend(report: &Report<'_>) -> Vec<(Ink, String)> {
    let mut inks = Vec::new();
    for case in &report.experiment.cases {
        inks.extend(
            case.guests
                .iter()
                .map(|guests| ink(report.experiment, case, &guests.name)),
        );
    }
    let kinds = [
        (Ink::Native, "ECN flow"),
        (Ink::Legacy, "legacy flow (no ECN)"),
        (Ink::Virtual, "legacy flow that a law translates"),
    ];
    let occurs = kinds.into_iter().filter(|(ink, _)| inks.contains(ink));
    occurs.map(|(ink, words)| (ink, words.to_owned())).collect()
}
