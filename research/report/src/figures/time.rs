//! Goodput and queue over the time of a run.

use uc_experiment::{FlowRecord, Nanos};

use super::figure::{Figure, Stage};
use crate::cast::{flows, is_special};
use crate::chart::Mark;
use crate::curves::{self, Points};
use crate::ink::Ink;
use crate::panels::{over_time, time_unit};
use crate::scene::Scene;
use crate::{Error, unit};

/// Maximum number of flows that can be told apart; with more, a group is drawn as its mean flow.
const FLOWS: usize = 60;

pub(super) fn goodput(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let scale = (time_unit(&stage.shown), stage.rate);
    let marks = |scene: &Scene<'_>| {
        if scene.flow_count() > FLOWS {
            group_goodputs(stage, scene, scale)
        } else {
            flow_goodputs(stage, scene, scale)
        }
    };
    let panels = over_time(&stage.shown, stage.rate.name, marks)?;
    let longest = stage.shown.iter().map(|scene| bin(scene)).max();
    let bin = longest.map_or_else(String::new, |bin| bin.to_string());
    let who = if stage.shown.iter().any(|scene| scene.flow_count() > FLOWS) {
        format!("every flow, of more than {FLOWS} flows the mean of each group,")
    } else {
        "every flow".into()
    };
    let caption = format!(
        "Means over {bin} of {who} in the first run; a single flow beside a group is drawn thick. \
         What is shaded is not measured."
    );
    Ok(stage.figure("Goodput over time", &caption, panels))
}

type Scale = (unit::Unit, unit::Unit);

/// Returns the bin width: one second as in the papers, or a fortieth of a shorter run, but at least
/// two samples.
fn bin(scene: &Scene<'_>) -> Nanos {
    let experiment = scene.experiment;
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

fn flow_goodputs(stage: &Stage<'_, '_>, scene: &Scene<'_>, scale: Scale) -> Vec<(Ink, Mark)> {
    let curve = |flow: &FlowRecord| {
        let width = if is_special(scene.case, &flow.group) {
            3
        } else {
            1
        };
        let points = curves::goodput(flow, bin(scene), scene.experiment.duration);
        let points = scaled(points, scale);
        (
            stage.cast.ink(scene, &flow.group),
            Mark::Line { points, width },
        )
    };
    flows(scene).into_iter().map(curve).collect()
}

fn group_goodputs(stage: &Stage<'_, '_>, scene: &Scene<'_>, scale: Scale) -> Vec<(Ink, Mark)> {
    let curve = |guests: &uc_experiment::Guests| {
        let every = flows(scene);
        let of_group: Vec<Points> = every
            .iter()
            .filter(|flow| flow.group == guests.name)
            .map(|flow| curves::goodput(flow, bin(scene), scene.experiment.duration))
            .collect();
        let points = scaled(curves::mean(&of_group), scale);
        (
            stage.cast.ink(scene, &guests.name),
            Mark::Line { points, width: 2 },
        )
    };
    scene.case.guests.iter().map(curve).collect()
}

/// Converts seconds and bits per second to the figure's units.
fn scaled(points: Points, (time, rate): Scale) -> Points {
    let point = |(at, bps)| (at / time.size, bps / rate.size);
    points.into_iter().map(point).collect()
}

pub(super) fn queue(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let time = time_unit(&stage.shown);
    let marks = |scene: &Scene<'_>| {
        let samples = scene.first().map_or(&[][..], |record| &record.queue);
        let line = |points| Mark::Line {
            points: in_unit(points, time),
            width: 1,
        };
        vec![
            (Ink::Faint, line(curves::backlog(samples))),
            (Ink::Native, line(curves::average(samples))),
        ]
    };
    let panels = over_time(&stage.shown, "kB", marks)?;
    let mut figure = stage.figure("Queue at the bottleneck", "In the first run.", panels);
    figure.legend = vec![(Ink::Faint, "backlog".into())];
    let averaged = |scene: &&Scene<'_>| {
        let queue = scene.first().map_or(&[][..], |record| &record.queue);
        queue.iter().any(|sample| sample.average_bytes.is_some())
    };
    if stage.shown.iter().any(averaged) {
        figure.legend.push((Ink::Native, "RED's average".into()));
    }
    Ok(figure)
}

/// Converts seconds to the figure's unit of time.
pub(super) fn in_unit(points: Points, time: unit::Unit) -> Points {
    let point = |(at, value)| (at / time.size, value);
    points.into_iter().map(point).collect()
}
