//! The figures of an experiment: one panel per case, side by side on the same axes.

use std::ops::Range;

use uc_experiment::series::Series;
use uc_experiment::{Case, Experiment, FlowRecord, Law, RunRecord};

use crate::chart::{Ink, Mark, Panel};
use crate::curves::{self, Points};
use crate::words::{count, sentence_case};
use crate::{Error, Report};

/// From this many runs on, the densities of goodput mean something.
const DENSITY_RUNS: u32 = 10;

/// A figure: its panels as SVG, and what its inks mean.
pub(crate) struct Figure {
    pub title: &'static str,
    pub caption: String,
    /// A case's title and its drawing.
    pub panels: Vec<(String, String)>,
    pub legend: Vec<(Ink, String)>,
}

/// One case as it is drawn: before its axes are known.
struct Draft<'a> {
    case: &'a Case,
    marks: Vec<(Ink, Mark)>,
}

/// All figures that the records allow.
///
/// # Errors
/// [`Error::Figure`] if one can't be drawn.
pub(crate) fn figures(report: &Report<'_>) -> Result<Vec<Figure>, Error> {
    let mut figures = vec![goodput_over_time(report)?, mean_goodput(report)?];
    if report.meta.runs >= DENSITY_RUNS {
        figures.push(density(report)?);
    }
    figures.push(window(report)?);
    figures.push(queue(report)?);
    figures.retain(|figure| !figure.panels.is_empty());
    Ok(figures)
}

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

/// Whether a group is a single flow beside others: the one to look at.
fn is_special(case: &Case, group: &str) -> bool {
    case.guests.len() > 1
        && case
            .group(group)
            .is_some_and(|guests| guests.total_flows() == 1)
}

/// The case's flows of its first repetition, the special ones last, so that they lie on top.
fn flows<'a>(report: &Report<'a>, case: &'a Case) -> Vec<&'a FlowRecord> {
    let Some(record) = first_record(report, case) else {
        return Vec::new();
    };
    let mut flows: Vec<&FlowRecord> = record.flows.iter().collect();
    flows.sort_by_key(|flow| is_special(case, &flow.group));
    flows
}

fn first_record<'a>(report: &Report<'a>, case: &Case) -> Option<&'a RunRecord> {
    let records = report
        .records
        .iter()
        .filter(|record| record.case == case.name);
    records.min_by_key(|record| record.run)
}

fn goodput_over_time(report: &Report<'_>) -> Result<Figure, Error> {
    let end_s = report.experiment.duration.0 / 1_000_000_000;
    let draft = |case| {
        let curve = |flow: &FlowRecord| {
            let width = if is_special(case, &flow.group) { 3 } else { 1 };
            let points = curves::goodput(flow, end_s);
            (
                ink(report.experiment, case, &flow.group),
                Mark::Line { points, width },
            )
        };
        Draft {
            case,
            marks: flows(report, case).into_iter().map(curve).collect(),
        }
    };
    let drafts: Vec<Draft<'_>> = report.experiment.cases.iter().map(draft).collect();
    Ok(Figure {
        title: "Goodput over time",
        caption:
            "One-second means of every flow in the first run; a single flow beside a group is \
                  drawn thick. What is shaded is not measured."
                .into(),
        panels: over_time(report, drafts, "Mbit/s")?,
        legend: legend(report),
    })
}

fn mean_goodput(report: &Report<'_>) -> Result<Figure, Error> {
    let drafts: Vec<Draft<'_>> = report
        .experiment
        .cases
        .iter()
        .map(|case| Draft {
            case,
            marks: bars(report, case),
        })
        .collect();
    let most = report
        .experiment
        .cases
        .iter()
        .map(|case| case.guests.iter());
    let most = most
        .map(|guests| guests.map(|guests| guests.total_flows()).sum::<u32>())
        .max();
    let bottom = Panel {
        title: String::new(),
        x: 0.0..f64::from(most.unwrap_or(1)),
        y: 0.0..1.0,
        x_label: "",
        y_label: "Mbit/s",
        x_numbers: false,
        shaded: Vec::new(),
        marks: Vec::new(),
    };
    let runs = count(report.meta.runs as usize, "run");
    Ok(Figure {
        title: "Mean goodput of every flow",
        caption: format!(
            "Mean of the measured part over {runs}; whiskers from the least to the most."
        ),
        panels: panels(drafts, &bottom)?,
        legend: legend(report),
    })
}

/// One bar per flow, in the file's order.
fn bars(report: &Report<'_>, case: &Case) -> Vec<(Ink, Mark)> {
    let mut marks = Vec::new();
    for guests in &case.guests {
        for index in 0..guests.total_flows() {
            let rates = goodputs_mbps(report, case, |flow| {
                flow.group == guests.name && flow.index == index
            });
            let place = marks.len() as f64;
            if rates.is_empty() {
                continue;
            }
            let height = rates.iter().sum::<f64>() / rates.len() as f64;
            let (least, most) = extent(rates.into_iter());
            let mark = Mark::Bar {
                x: place + 0.14..place + 0.86,
                height,
                whisker: least..most,
            };
            marks.push((ink(report.experiment, case, &guests.name), mark));
        }
    }
    marks
}

fn density(report: &Report<'_>) -> Result<Figure, Error> {
    let every = |case| goodputs_mbps(report, case, |_| true);
    let (_, most) = extent(report.experiment.cases.iter().flat_map(every));
    let end = (most * 1.15).max(1e-3);
    let draft = |case| {
        let curve = |guests: &uc_experiment::Guests| {
            let rates = goodputs_mbps(report, case, |flow| flow.group == guests.name);
            let points = curves::density(&rates, end);
            (!rates.is_empty()).then(|| {
                (
                    ink(report.experiment, case, &guests.name),
                    Mark::Area { points },
                )
            })
        };
        Draft {
            case,
            marks: case.guests.iter().filter_map(curve).collect(),
        }
    };
    let drafts = report.experiment.cases.iter().map(draft).collect();
    let bottom = Panel {
        title: String::new(),
        x: 0.0..end,
        y: 0.0..1.0,
        x_label: "mean goodput of a flow in a run, Mbit/s",
        y_label: "density",
        x_numbers: true,
        shaded: Vec::new(),
        marks: Vec::new(),
    };
    Ok(Figure {
        title: "Density of mean goodput",
        caption: format!("Every flow of {}.", count(report.meta.runs as usize, "run")),
        panels: panels(drafts, &bottom)?,
        legend: legend(report),
    })
}

fn window(report: &Report<'_>) -> Result<Figure, Error> {
    let draft = |case| {
        let Some(flow) = flows(report, case).pop() else {
            return Draft {
                case,
                marks: Vec::new(),
            };
        };
        let line = |points, width| Mark::Line { points, width };
        let ink = ink(report.experiment, case, &flow.group);
        let marks = vec![
            (Ink::Faint, line(curves::cwnd(flow), 1)),
            (ink, line(curves::send_window(flow), 2)),
        ];
        Draft { case, marks }
    };
    let drafts = report.experiment.cases.iter().map(draft).collect();
    let mut legend = legend(report);
    legend.push((Ink::Faint, "the guest's own congestion window".into()));
    Ok(Figure {
        title: "Send window",
        caption: "What one flow of each case may have in flight in the first run (the flow beside \
                  the group, if there is one): the law's window where a law translates it, else \
                  the smaller of congestion window and receive window."
            .into(),
        panels: over_time(report, drafts, "segments")?,
        legend,
    })
}

fn queue(report: &Report<'_>) -> Result<Figure, Error> {
    let mut averaged = false;
    let mut drafts = Vec::new();
    for case in &report.experiment.cases {
        let samples = first_record(report, case).map_or(&[][..], |record| &record.queue);
        let line = |points| Mark::Line { points, width: 1 };
        let mut marks = vec![(Ink::Faint, line(curves::backlog(samples)))];
        let average = curves::average(samples);
        if !average.is_empty() {
            averaged = true;
            marks.push((Ink::Native, line(average)));
        }
        drafts.push(Draft { case, marks });
    }
    let mut legend = vec![(Ink::Faint, "backlog".to_owned())];
    if averaged {
        legend.push((Ink::Native, "RED's average".into()));
    }
    Ok(Figure {
        title: "Queue at the bottleneck",
        caption: "In the first run.".into(),
        panels: over_time(report, drafts, "kB")?,
        legend,
    })
}

/// The goodputs of the measured part of the chosen flows in all runs of the case, Mbit/s.
fn goodputs_mbps(
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

/// Panels against seconds, with what is not measured shaded.
fn over_time(
    report: &Report<'_>,
    drafts: Vec<Draft<'_>>,
    y_label: &'static str,
) -> Result<Vec<(String, String)>, Error> {
    let (end_s, measured_ns) = (
        report.experiment.duration.as_secs_f64(),
        report.experiment.measured_ns(),
    );
    let (from_s, to_s) = (measured_ns.start as f64 / 1e9, measured_ns.end as f64 / 1e9);
    let bottom = Panel {
        title: String::new(),
        x: 0.0..end_s,
        y: 0.0..1.0,
        x_label: "seconds",
        y_label,
        x_numbers: true,
        shaded: vec![0.0..from_s, to_s..end_s],
        marks: Vec::new(),
    };
    panels(drafts, &bottom)
}

/// All drafts that have something to show, on the same axes.
fn panels(drafts: Vec<Draft<'_>>, bottom: &Panel) -> Result<Vec<(String, String)>, Error> {
    let heights = drafts
        .iter()
        .flat_map(|draft| &draft.marks)
        .map(|(_, mark)| match mark {
            Mark::Line { points, .. } | Mark::Area { points } => highest(points),
            Mark::Bar {
                height, whisker, ..
            } => height.max(whisker.end),
        });
    let (_, top) = extent(heights);
    let y: Range<f64> = 0.0..if top > 0.0 { top * 1.08 } else { 1.0 };
    let shown = drafts
        .into_iter()
        .filter(|draft| draft.marks.iter().any(|(_, mark)| has_any(mark)));
    shown
        .map(|draft| {
            let title = sentence_case(draft.case.title());
            let panel = Panel {
                title: title.clone(),
                y: y.clone(),
                marks: draft.marks,
                ..bottom.clone()
            };
            Ok((title, panel.svg()?))
        })
        .collect()
}

fn has_any(mark: &Mark) -> bool {
    match mark {
        Mark::Line { points, .. } | Mark::Area { points } => !points.is_empty(),
        Mark::Bar { .. } => true,
    }
}

fn highest(points: &Points) -> f64 {
    extent(points.iter().map(|point| point.1)).1
}

/// The least and the most; 0 and 0 of nothing.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let widen = |range: Option<(f64, f64)>, value: f64| match range {
        None => Some((value, value)),
        Some((least, most)) => Some((least.min(value), most.max(value))),
    };
    values.fold(None, widen).unwrap_or_default()
}

/// The kinds of flow that occur in the experiment.
fn legend(report: &Report<'_>) -> Vec<(Ink, String)> {
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
