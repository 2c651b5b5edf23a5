//! The figures of an experiment: one panel per case, side by side on the same axes.

use uc_experiment::{Case, FlowRecord};

use crate::cast::{first_record, flows, goodputs_mbps, ink, is_special, legend};
use crate::chart::{Ink, Mark, Panel};
use crate::panels::{Draft, extent, over_time, panels};
use crate::words::count;
use crate::{Error, Report, curves};

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
    // A single bar compares nothing.
    let drafts = if most > Some(1) { drafts } else { Vec::new() };
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
