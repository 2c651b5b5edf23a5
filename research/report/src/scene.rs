//! What a panel shows: one case at one point of the experiment, with its runs.

use uc_experiment::series::Series;
use uc_experiment::{Case, Experiment, FlowRecord, RunRecord};

use crate::Report;
use crate::words::sentence_case;

/// A figure has at most this many panels: of more scenes, some at equal distances.
pub(crate) const PANELS: usize = 8;

/// One case at one point.
pub(crate) struct Scene<'a> {
    /// The experiment as it is at this point.
    pub experiment: &'a Experiment,
    pub case: &'a Case,
    pub title: String,
    /// The case's name, and the labels.
    pub name: String,
    /// In the order of repetitions.
    records: Vec<&'a RunRecord>,
}

/// Every case at every point, in the file's order.
pub(crate) fn scenes<'a>(report: &Report<'a>) -> Vec<Scene<'a>> {
    let of_point = |point: &'a uc_experiment::Point| {
        let labels: Vec<String> = labels(point);
        point.experiment.cases.iter().map(move |case| {
            let of_case =
                |record: &&RunRecord| record.case == case.name && record.point == point.number;
            let mut records: Vec<&RunRecord> = report.records.iter().filter(of_case).collect();
            records.sort_by_key(|record| record.run);
            Scene {
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

/// `axis label` for each axis of the point.
fn labels(point: &uc_experiment::Point) -> Vec<String> {
    let labels = point.labels.iter();
    labels
        .map(|(axis, label)| format!("{axis} {label}"))
        .collect()
}

/// The point's labels say more than the only case's title.
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

/// Those that are drawn: all, or [`PANELS`] from the first to the last.
pub(crate) fn shown<'b, 'a>(scenes: &'b [Scene<'a>]) -> Vec<&'b Scene<'a>> {
    if scenes.len() <= PANELS {
        return scenes.iter().collect();
    }
    let place = |panel: usize| panel * (scenes.len() - 1) / (PANELS - 1);
    (0..PANELS).map(|panel| &scenes[place(panel)]).collect()
}

/// What to say below a figure that leaves scenes out; begins with a space.
pub(crate) fn left_out(scenes: &[Scene<'_>]) -> String {
    if scenes.len() <= PANELS {
        return String::new();
    }
    format!(
        " Shown are {PANELS} of {} panels, from the first to the last.",
        scenes.len()
    )
}

impl<'a> Scene<'a> {
    /// The first repetition; none if it was not run.
    pub(crate) fn first(&self) -> Option<&'a RunRecord> {
        self.records.first().copied()
    }

    /// All repetitions.
    pub(crate) fn records(&self) -> &[&'a RunRecord] {
        &self.records
    }

    /// The chosen flows of all repetitions.
    pub(crate) fn flows(
        &self,
        chosen: impl Fn(&FlowRecord) -> bool,
    ) -> impl Iterator<Item = &'a FlowRecord> {
        let flows = self.records.iter().flat_map(|record| &record.flows);
        flows.filter(move |flow| chosen(flow))
    }

    /// The goodputs of the measured part of the chosen flows in all repetitions, bits per second.
    pub(crate) fn goodputs_bps(&self, chosen: impl Fn(&FlowRecord) -> bool) -> Vec<f64> {
        let measured_ns = self.experiment.measured_ns();
        let series = self
            .flows(chosen)
            .filter_map(|flow| Series::of(flow, &measured_ns));
        series.map(Series::goodput_bps).collect()
    }

    /// How many flows a run of it has.
    pub(crate) fn flow_count(&self) -> usize {
        let groups = self.case.guests.iter();
        groups.map(|guests| guests.total_flows() as usize).sum()
    }
}
