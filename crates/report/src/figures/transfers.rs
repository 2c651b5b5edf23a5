//! How long transfers took: the cumulative distribution of completion times.

use uc_experiment::{Completion, Guests};

use super::{Figure, Stage};
use crate::Error;
use crate::axis::Axis;
use crate::chart::Mark;
use crate::distribution;
use crate::panels::{Draft, extent, on_axes};
use crate::scene::Scene;
use crate::words::count;

pub(super) fn cumulative(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let draft = |scene: &&Scene<'_>| {
        let curve = |guests: &Guests| {
            let transfers = transfers(scene, guests);
            let times_ms: Vec<f64> = transfers.iter().filter_map(time_ms).collect();
            let points = distribution::cumulative(times_ms, transfers.len());
            let ink = stage.cast.ink(scene, &guests.name);
            (!points.is_empty()).then_some((ink, Mark::Line { points, width: 2 }))
        };
        Draft::new(
            &scene.title,
            scene.case.guests.iter().filter_map(curve).collect(),
        )
    };
    let drafts: Vec<Draft> = stage.shown.iter().map(draft).collect();
    let (least, most) = extent(drafts.iter().flat_map(Draft::line_xs));
    let least = least.max(1e-4);
    let x = Axis::logarithmic(least..most.max(least), "completion time, milliseconds");
    let y = Axis::linear(0.0..1.04, "part of the transfers");
    let caption = format!(
        "All transfers of {}; a curve that ends below 1 has transfers that were not over when the \
         run was.",
        count(stage.runs as usize, "run")
    );
    Ok(stage.figure("Completion times", &caption, on_axes(drafts, &x, &y)?))
}

fn transfers<'a>(scene: &Scene<'a>, guests: &Guests) -> Vec<&'a Completion> {
    let flows = scene.flows(|flow| flow.group == guests.name);
    flows.flat_map(|flow| &flow.completions).collect()
}

fn time_ms(transfer: &&Completion) -> Option<f64> {
    let finished_ns = transfer.finished_ns?;
    Some(finished_ns.saturating_sub(transfer.started_ns) as f64 / 1e6)
}
