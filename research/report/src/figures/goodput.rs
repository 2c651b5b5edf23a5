//! The goodputs of flows over whole runs: a bar for each, and their distribution.

use uc_experiment::Guests;

use super::figure::{Context, Figure};
use crate::Error;
use crate::axis::Axis;
use crate::chart::Mark;
use crate::distribution::{cumulative, density};
use crate::line_style::LineStyle;
use crate::panels::{Draft, extent, on_axes, panels};
use crate::run_set::RunSet;
use crate::words::count;

/// Minimum number of runs for a density of goodput.
const DENSITY_RUNS: u32 = 10;

/// Minimum number of flows for a cumulative distribution of goodput.
const CUMULATIVE_FLOWS: usize = 20;

/// Maximum number of bars that can be told apart; with more flows each group has one bar.
const BARS: usize = 60;

/// Returns the largest number of flows of a run.
fn most_flows(context: &Context<'_, '_>) -> usize {
    let counts = context.shown.iter().map(|set| set.flow_count());
    counts.max().unwrap_or(0)
}

pub(super) fn means(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let flows = most_flows(context);
    let per_flow = flows <= BARS;
    let marks = |set: &&RunSet<'_>| {
        let marks = if per_flow {
            flow_bars(context, set)
        } else {
            group_bars(context, set)
        };
        Draft::new(&set.title, marks)
    };
    // A single bar compares nothing.
    let shown = if flows > 1 { &context.shown[..] } else { &[] };
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
        count(context.runs as usize, "run")
    );
    let what = if per_flow {
        "Mean goodput of every flow"
    } else {
        "Mean goodput of every group"
    };
    Ok(context.figure(what, &caption, panels(drafts, &x, context.rate.name)?))
}

/// Returns one bar per flow, in the file's order.
fn flow_bars(context: &Context<'_, '_>, set: &RunSet<'_>) -> Vec<(LineStyle, Mark)> {
    let mut marks = Vec::new();
    for guests in &set.case.guests {
        for index in 0..guests.total_flows() {
            let rates = set.goodputs_bps(|flow| flow.group == guests.name && flow.index == index);
            push_bar(context, set, guests, &rates, &mut marks);
        }
    }
    marks
}

fn group_bars(context: &Context<'_, '_>, set: &RunSet<'_>) -> Vec<(LineStyle, Mark)> {
    let mut marks = Vec::new();
    for guests in &set.case.guests {
        let rates = set.goodputs_bps(|flow| flow.group == guests.name);
        push_bar(context, set, guests, &rates, &mut marks);
    }
    marks
}

fn push_bar(
    context: &Context<'_, '_>,
    set: &RunSet<'_>,
    guests: &Guests,
    rates_bps: &[f64],
    marks: &mut Vec<(LineStyle, Mark)>,
) {
    if rates_bps.is_empty() {
        return;
    }
    let place = marks.len() as f64;
    let mean = rates_bps.iter().sum::<f64>() / rates_bps.len() as f64;
    let (least, most) = extent(rates_bps.iter().copied());
    let mark = Mark::Bar {
        x: place + 0.14..place + 0.86,
        height: mean / context.rate.size,
        whisker: least / context.rate.size..most / context.rate.size,
    };
    marks.push((context.styles.style(set, &guests.name), mark));
}

/// Draws densities over many runs, or else the cumulative distribution over many flows; `None` with few runs and few
/// flows.
pub(super) fn distribution(context: &Context<'_, '_>) -> Result<Option<Figure>, Error> {
    let flows = most_flows(context);
    let dense = context.runs >= DENSITY_RUNS;
    if !dense && flows < CUMULATIVE_FLOWS {
        return Ok(None);
    }
    let every = |set: &&RunSet<'_>| set.goodputs_bps(|_| true);
    let (_, most) = extent(context.shown.iter().flat_map(every));
    let end = (most / context.rate.size * 1.15).max(1e-3);
    let draft = |set: &&RunSet<'_>| {
        let curve = |guests: &Guests| {
            let rates = set.goodputs_bps(|flow| flow.group == guests.name);
            let rates: Vec<f64> = rates.iter().map(|bps| bps / context.rate.size).collect();
            let style = context.styles.style(set, &guests.name);
            (!rates.is_empty()).then(|| (style, curve_of(rates, dense.then_some(end))))
        };
        Draft::new(
            &set.title,
            set.case.guests.iter().filter_map(curve).collect(),
        )
    };
    let drafts = context.shown.iter().map(draft).collect();
    let x = Axis::linear(
        0.0..end,
        format!("mean goodput of a flow in a run, {}", context.rate.name),
    );
    let caption = format!("Every flow of {}.", count(context.runs as usize, "run"));
    Ok(Some(if dense {
        context.figure(
            "Density of mean goodput",
            &caption,
            panels(drafts, &x, "density")?,
        )
    } else {
        let y = Axis::linear(0.0..1.04, "fraction of the flows");
        context.figure(
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
