//! Goodput and queue over the time of a run.

use uc_experiment::{FlowRecord, Nanos};

use super::figure::{Context, Figure};
use crate::chart::Mark;
use crate::curves::{self, Points};
use crate::flow_styles::{flows, is_special};
use crate::line_style::LineStyle;
use crate::panels::{over_time, time_unit};
use crate::run_set::RunSet;
use crate::{Error, unit};

/// Maximum number of flows that can be told apart; with more, a group is drawn as its mean flow.
const FLOWS: usize = 60;

pub(super) fn goodput(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let scale = (time_unit(&context.shown), context.rate);
    let marks = |set: &RunSet<'_>| {
        if set.flow_count() > FLOWS {
            group_goodputs(context, set, scale)
        } else {
            flow_goodputs(context, set, scale)
        }
    };
    let panels = over_time(&context.shown, context.rate.name, marks)?;
    let longest = context.shown.iter().map(|set| bin(set)).max();
    let bin = longest.map_or_else(String::new, |bin| bin.to_string());
    let who = if context.shown.iter().any(|set| set.flow_count() > FLOWS) {
        format!("every flow, of more than {FLOWS} flows the mean of each group,")
    } else {
        "every flow".into()
    };
    let caption = format!(
        "Means over {bin} of {who} in the first run; a single flow beside a group is drawn thick. \
         What is shaded is not measured."
    );
    Ok(context.figure("Goodput over time", &caption, panels))
}

type Scale = (unit::Unit, unit::Unit);

/// Returns the bin width: one second, as in the papers; in a run below 15 s a round number of at most a fortieth of the
/// run, but at least two samples' interval.
fn bin(set: &RunSet<'_>) -> Nanos {
    let experiment = set.experiment;
    if experiment.duration.0 >= 15_000_000_000 {
        return Nanos(1_000_000_000);
    }
    let power = 10u64.pow((experiment.duration.0 / 40).max(1).ilog10());
    let round = [10, 5, 2, 1].map(|factor| factor * power);
    let fitting = round
        .into_iter()
        .find(|bin| bin * 40 <= experiment.duration.0);
    Nanos(fitting.unwrap_or(power).max(2 * experiment.sample.0))
}

fn flow_goodputs(
    context: &Context<'_, '_>,
    set: &RunSet<'_>,
    scale: Scale,
) -> Vec<(LineStyle, Mark)> {
    let curve = |flow: &FlowRecord| {
        let width = if is_special(set.case, &flow.group) {
            3
        } else {
            1
        };
        let points = curves::goodput(flow, bin(set), set.experiment.duration);
        let points = scaled(points, scale);
        (
            context.styles.style(set, &flow.group),
            Mark::Line { points, width },
        )
    };
    flows(set).into_iter().map(curve).collect()
}

fn group_goodputs(
    context: &Context<'_, '_>,
    set: &RunSet<'_>,
    scale: Scale,
) -> Vec<(LineStyle, Mark)> {
    let curve = |guests: &uc_experiment::Guests| {
        let every = flows(set);
        let of_group: Vec<Points> = every
            .iter()
            .filter(|flow| flow.group == guests.name)
            .map(|flow| curves::goodput(flow, bin(set), set.experiment.duration))
            .collect();
        let points = scaled(curves::mean(&of_group), scale);
        (
            context.styles.style(set, &guests.name),
            Mark::Line { points, width: 2 },
        )
    };
    set.case.guests.iter().map(curve).collect()
}

/// Converts seconds and bits per second to the figure's units.
fn scaled(points: Points, (time, rate): Scale) -> Points {
    let point = |(at, bps)| (at / time.size, bps / rate.size);
    points.into_iter().map(point).collect()
}

pub(super) fn queue(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let time = time_unit(&context.shown);
    let marks = |set: &RunSet<'_>| {
        let samples = set.first().map_or(&[][..], |record| &record.queue);
        let line = |points| Mark::Line {
            points: in_unit(points, time),
            width: 1,
        };
        vec![
            (LineStyle::Faint, line(curves::backlog(samples))),
            (LineStyle::Native, line(curves::average(samples))),
        ]
    };
    let panels = over_time(&context.shown, "kB", marks)?;
    let mut figure = context.figure("Queue at the bottleneck", "In the first run.", panels);
    figure.legend = vec![(LineStyle::Faint, "backlog".into())];
    let averaged = |set: &&RunSet<'_>| {
        let queue = set.first().map_or(&[][..], |record| &record.queue);
        queue.iter().any(|sample| sample.average_bytes.is_some())
    };
    if context.shown.iter().any(averaged) {
        figure
            .legend
            .push((LineStyle::Native, "RED's average".into()));
    }
    Ok(figure)
}

/// Converts seconds to the figure's unit of time.
pub(super) fn in_unit(points: Points, time: unit::Unit) -> Points {
    let point = |(at, value)| (at / time.size, value);
    points.into_iter().map(point).collect()
}
