//! The cases of an experiment side by side, on the same axes.

use std::ops::Range;

use uc_experiment::Case;

use crate::chart::{Ink, Mark, Panel};
use crate::curves::Points;
use crate::words::sentence_case;
use crate::{Error, Report};

/// One case as it is drawn: before its axes are known.
pub(crate) struct Draft<'a> {
    pub case: &'a Case,
    pub marks: Vec<(Ink, Mark)>,
}

/// Panels against seconds, with what is not measured shaded.
pub(crate) fn over_time(
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
pub(crate) fn panels(
    drafts: Vec<Draft<'_>>,
    bottom: &Panel,
) -> Result<Vec<(String, String)>, Error> {
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
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let widen = |range: Option<(f64, f64)>, value: f64| match range {
        None => Some((value, value)),
        Some((least, most)) => Some((least.min(value), most.max(value))),
    };
    values.fold(None, widen).unwrap_or_default()
}
