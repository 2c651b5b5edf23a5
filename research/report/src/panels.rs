//! Panels of sets of runs on the same axes.

use std::ops::Range;

use crate::Error;
use crate::axis::Axis;
use crate::chart::{Mark, Panel};
use crate::line_style::LineStyle;
use crate::run_set::RunSet;
use crate::unit::{self, Unit};

/// A panel before its axes are known.
pub(crate) struct Draft {
    pub title: String,
    pub shaded: Vec<Range<f64>>,
    pub marks: Vec<(LineStyle, Mark)>,
}

impl Draft {
    pub(crate) fn new(title: &str, marks: Vec<(LineStyle, Mark)>) -> Self {
        Self {
            title: title.into(),
            shaded: Vec::new(),
            marks,
        }
    }

    /// Iterates over the x coordinates of the points of the panel's lines.
    pub(crate) fn line_xs(&self) -> impl Iterator<Item = f64> + '_ {
        let points = self.marks.iter().flat_map(|(_, mark)| match mark {
            Mark::Line { points, .. } => points.as_slice(),
            _ => &[],
        });
        points.map(|point| point.0)
    }

    /// Returns whether the panel has nothing to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.marks.iter().all(|(_, mark)| mark.is_empty())
    }
}

/// A panel's title and its drawing.
pub(crate) type Drawn = (String, String);

/// Returns the unit of a time axis, s, ms or µs, that suits the longest run of the sets.
pub(crate) fn time_unit(sets: &[&RunSet<'_>]) -> Unit {
    unit::of_time(longest_s(sets))
}

fn longest_s(sets: &[&RunSet<'_>]) -> f64 {
    let durations = sets.iter().map(|set| set.experiment.duration.as_secs_f64());
    durations.fold(0.0, f64::max)
}

/// Draws panels over the time of a run, with the parts that are not measured shaded.
pub(crate) fn over_time(
    sets: &[&RunSet<'_>],
    y_label: &str,
    marks: impl Fn(&RunSet<'_>) -> Vec<(LineStyle, Mark)>,
) -> Result<Vec<Drawn>, Error> {
    let unit = time_unit(sets);
    let draft = |set: &&RunSet<'_>| {
        let time = |ns: u64| ns as f64 / 1e9 / unit.size;
        let measured_ns = set.experiment.measured_ns();
        let end = time(set.experiment.duration.0);
        Draft {
            title: set.title.clone(),
            shaded: vec![0.0..time(measured_ns.start), time(measured_ns.end)..end],
            marks: marks(set),
        }
    };
    let drafts: Vec<Draft> = sets.iter().map(draft).collect();
    let x = Axis::linear(0.0..longest_s(sets) / unit.size, unit.name);
    panels(drafts, &x, y_label)
}

/// Draws all non-empty drafts, on the same x axis and on the same y axis from 0.
pub(crate) fn panels(drafts: Vec<Draft>, x: &Axis, y_label: &str) -> Result<Vec<Drawn>, Error> {
    let marks = drafts.iter().flat_map(|draft| &draft.marks);
    let top = marks.map(|(_, mark)| mark.top()).fold(0.0, f64::max);
    let y = Axis::linear(0.0..if top > 0.0 { top * 1.08 } else { 1.0 }, y_label);
    on_axes(drafts, x, &y)
}

/// Draws all non-empty drafts on these axes.
pub(crate) fn on_axes(drafts: Vec<Draft>, x: &Axis, y: &Axis) -> Result<Vec<Drawn>, Error> {
    let shown = drafts.into_iter().filter(|draft| !draft.is_empty());
    let draw = |draft: Draft| {
        let panel = Panel {
            title: draft.title,
            x: x.clone(),
            y: y.clone(),
            shaded: draft.shaded,
            marks: draft.marks,
        };
        let svg = panel.svg()?;
        Ok((panel.title, svg))
    };
    shown.map(draw).collect()
}

/// Returns the minimum and the maximum; 0 and 0 without values.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let widen = |range: Option<(f64, f64)>, value: f64| match range {
        None => Some((value, value)),
        Some((least, most)) => Some((least.min(value), most.max(value))),
    };
    values.fold(None, widen).unwrap_or_default()
}
