//! The goodputs of flows over whole runs: a bar for each, and their distribution.

use uc_experiment::Guests;

use super::figure::{Figure, Stage};
use crate::Error;
use crate::axis::Axis;
use crate::chart::Mark;
use crate::distribution::{cumulative, density};
use crate::ink::Ink;
use crate::panels::{Draft, extent, on_axes, panels};
use crate::scene::Scene;
use crate::words::count;

/// Minimum number of runs for a density of goodput.
const DENSITY_RUNS: u32 = 10;

/// Minimum number of flows for a cumulative distribution of goodput.
const CUMULATIVE_FLOWS: usize = 20;

/// Maximum number of bars that can be told apart; with more flows each group has one bar.
const BARS: usize = 60;

/// Returns the largest number of flows of a scene.
fn most_flows(stage: &Stage<'_, '_>) -> usize {
    let counts = stage.shown.iter().map(|scene| scene.flow_count());
    counts.max().unwrap_or(0)
}

pub(super) fn means(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let flows = most_flows(stage);
    let per_flow = flows <= BARS;
    let marks = |scene: &&Scene<'_>| {
        let marks = if per_flow {
            flow_bars(stage, scene)
        } else {
            group_bars(stage, scene)
        };
        Draft::new(&scene.title, marks)
    };
    // A single bar compares nothing.
    let shown = if flows > 1 { &stage.shown[..] } else { &[] };
    let drafts: Vec<Draft> = shown.iter().map(marks).collect();
    let most = drafts
        .iter()
        .map(|draft| draft.marks.len())
        .max()
        .unwrap_or(1);
    let x = Axis::bare(0.0..most as f64);
    let of = if per_flow {
        ""
    } else {
        " of the flows of every group"
    };
    let caption = format!(
        "Mean{of} of the measured part over {}; whiskers from the least to the most.",
        count(stage.runs as usize, "run")
    );
    let what = if per_flow {
        "Mean goodput of every flow"
    } else {
        "Mean goodput of every group"
    };
    Ok(stage.figure(what, &caption, panels(drafts, &x, stage.rate.name)?))
}

/// Returns one bar per flow, in the file's order.
fn flow_bars(stage: &Stage<'_, '_>, scene: &Scene<'_>) -> Vec<(Ink, Mark)> {
    let mut marks = Vec::new();
    for guests in &scene.case.guests {
        for index in 0..guests.total_flows() {
            let rates = scene.goodputs_bps(|flow| flow.group == guests.name && flow.index == index);
            push_bar(stage, scene, guests, &rates, &mut marks);
        }
    }
    marks
}

fn group_bars(stage: &Stage<'_, '_>, scene: &Scene<'_>) -> Vec<(Ink, Mark)> {
    let mut marks = Vec::new();
    for guests in &scene.case.guests {
        let rates = scene.goodputs_bps(|flow| flow.group == guests.name);
        push_bar(stage, scene, guests, &rates, &mut marks);
    }
    marks
}

fn push_bar(
    stage: &Stage<'_, '_>,
    scene: &Scene<'_>,
    guests: &Guests,
    rates_bps: &[f64],
    marks: &mut Vec<(Ink, Mark)>,
) {
    if rates_bps.is_empty() {
        return;
    }
    let place = marks.len() as f64;
    let mean = rates_bps.iter().sum::<f64>() / rates_bps.len() as f64;
    let (least, most) = extent(rates_bps.iter().copied());
    let mark = Mark::Bar {
        x: place + 0.14..place + 0.86,
        height: mean / stage.rate.size,
        whisker: least / stage.rate.size..most / stage.rate.size,
    };
    marks.push((stage.cast.ink(scene, &guests.name), mark));
}

/// Draws densities over many runs, or else the cumulative distribution over many flows.
pub(super) fn distribution(stage: &Stage<'_, '_>) -> Result<Option<Figure>, Error> {
    let flows = most_flows(stage);
    let dense = stage.runs >= DENSITY_RUNS;
    if !dense && flows < CUMULATIVE_FLOWS {
        return Ok(None);
    }
    let every = |scene: &&Scene<'_>| scene.goodputs_bps(|_| true);
    let (_, most) = extent(stage.shown.iter().flat_map(every));
    let end = (most / stage.rate.size * 1.15).max(1e-3);
    let draft = |scene: &&Scene<'_>| {
        let curve = |guests: &Guests| {
            let rates = scene.goodputs_bps(|flow| flow.group == guests.name);
            let rates: Vec<f64> = rates.iter().map(|bps| bps / stage.rate.size).collect();
            let ink = stage.cast.ink(scene, &guests.name);
            (!rates.is_empty()).then(|| (ink, curve_of(rates, dense.then_some(end))))
        };
        Draft::new(
            &scene.title,
            scene.case.guests.iter().filter_map(curve).collect(),
        )
    };
    let drafts = stage.shown.iter().map(draft).collect();
    let x = Axis::linear(
        0.0..end,
        format!("mean goodput of a flow in a run, {}", stage.rate.name),
    );
    let caption = format!("Every flow of {}.", count(stage.runs as usize, "run"));
    Ok(Some(if dense {
        stage.figure(
            "Density of mean goodput",
            &caption,
            panels(drafts, &x, "density")?,
        )
    } else {
        let y = Axis::linear(0.0..1.04, "fraction of the flows");
        stage.figure(
            "Distribution of mean goodput",
            &caption,
            on_axes(drafts, &x, &y)?,
        )
    }))
}

fn curve_of(values: Vec<f64>, density_end: Option<f64>) -> Mark {
    if let Some(end) = density_end {
        let points = density(&values, end);
        return Mark::Area { points };
    }
    let all = values.len();
    let points = cumulative(values, all);
    Mark::Line { points, width: 2 }
}
