//! The runs of one case at one point of the experiment: the content of a panel.

use uc_experiment::series::Series;
use uc_experiment::{Case, Experiment, FlowRecord, RunRecord};

use crate::Report;
use crate::words::sentence_case;

/// Maximum number of panels of a figure. Of more sets of runs, it shows some at equal distances.
pub(crate) const PANELS: usize = 8;

/// The runs of one case at one point.
pub(crate) struct RunSet<'a> {
    /// The experiment at the point of these runs.
    pub experiment: &'a Experiment,
    pub case: &'a Case,
    pub title: String,
    /// Name of the case, and the labels of the point.
    pub name: String,
    /// Records in the order of repetitions.
    records: Vec<&'a RunRecord>,
}

/// Returns every case at every point, in the file's order.
pub(crate) fn sets<'a>(report: &Report<'a>) -> Vec<RunSet<'a>> {
    let of_point = |point: &'a uc_experiment::Point| {
        let labels: Vec<String> = labels(point);
        point.experiment.cases.iter().map(move |case| {
            let of_case =
                |record: &&RunRecord| record.case == case.name && record.point == point.number;
            let mut records: Vec<&RunRecord> = report.records.iter().filter(of_case).collect();
            records.sort_by_key(|record| record.run);
            RunSet {
                experiment: &point.experiment,
                case,
                title: title(case, &labels, point.experiment.cases.len()),
                name: name(case, &labels),
                records,
            }
        })
    };
    report.points.iter().flat_map(of_point).collect()
}

/// Returns `axis label` for each axis of the point.
fn labels(point: &uc_experiment::Point) -> Vec<String> {
    let labels = point.labels.iter();
    labels
        .map(|(axis, label)| format!("{axis} {label}"))
        .collect()
}

/// Returns the title of a set of runs: the case's title and the point's labels; with a single case the labels alone, if
/// there are any.
fn title(case: &Case, labels: &[String], cases: usize) -> String {
    let case_title = sentence_case(case.title());
    match (labels.is_empty(), cases) {
        (true, _) => case_title,
        (false, 1) => labels.join(", "),
        (false, _) => format!("{case_title}: {}", labels.join(", ")),
    }
}

fn name(case: &Case, labels: &[String]) -> String {
    if labels.is_empty() {
        case.name.clone()
    } else {
        format!("{}, {}", case.name, labels.join(", "))
    }
}

/// Returns the sets that are drawn: all, or [`PANELS`] of them at equal distances, including the first and the last.
pub(crate) fn shown<'b, 'a>(sets: &'b [RunSet<'a>]) -> Vec<&'b RunSet<'a>> {
    if sets.len() <= PANELS {
        return sets.iter().collect();
    }
    let place = |panel: usize| panel * (sets.len() - 1) / (PANELS - 1);
    (0..PANELS).map(|panel| &sets[place(panel)]).collect()
}

/// Returns the note below a figure that omits sets of runs; it begins with a space.
pub(crate) fn left_out(sets: &[RunSet<'_>]) -> String {
    if sets.len() <= PANELS {
        return String::new();
    }
    format!(
        " Shown are {PANELS} of {} panels, from the first to the last.",
        sets.len()
    )
}

impl<'a> RunSet<'a> {
    /// Returns the first repetition; `None` if it was not run.
    pub(crate) fn first(&self) -> Option<&'a RunRecord> {
        self.records.first().copied()
    }

    /// Returns the records of all repetitions.
    pub(crate) fn records(&self) -> &[&'a RunRecord] {
        &self.records
    }

    /// Iterates over the chosen flows of all repetitions.
    pub(crate) fn flows(
        &self,
        chosen: impl Fn(&FlowRecord) -> bool,
    ) -> impl Iterator<Item = &'a FlowRecord> {
        let flows = self.records.iter().flat_map(|record| &record.flows);
        flows.filter(move |flow| chosen(flow))
    }

    /// Returns the goodputs of the measured part of the chosen flows in all repetitions, in bits
    /// per second.
    pub(crate) fn goodputs_bps(&self, chosen: impl Fn(&FlowRecord) -> bool) -> Vec<f64> {
        let measured_ns = self.experiment.measured_ns();
        let series = self
            .flows(chosen)
            .filter_map(|flow| Series::of(flow, &measured_ns));
        series.map(Series::goodput_bps).collect()
    }

    /// Returns the number of flows in a run of the set.
    pub(crate) fn flow_count(&self) -> usize {
        let groups = self.case.guests.iter();
        groups.map(|guests| guests.total_flows() as usize).sum()
    }
}
