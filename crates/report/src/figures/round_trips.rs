//! How long packets took there and back: the cumulative distribution of their round-trip times.

use uc_experiment::{Guests, Histogram};

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
            let times = round_trips(scene, guests);
            let ms = |(ns, count): (u64, u64)| (ns as f64 / 1e6, count);
            let counts: Vec<(f64, u64)> = times.cumulative().map(ms).collect();
            let points = distribution::cumulative_counts(&counts, times.count());
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
    let x = Axis::logarithmic(least..most.max(least), "round-trip time, milliseconds");
    let y = Axis::linear(0.0..1.04, "part of the packets");
    let caption = format!(
        "Of the data packets of the measured part that were sent once, of all flows of a group and \
         {}.",
        count(stage.runs as usize, "run")
    );
    let panels = on_axes(drafts, &x, &y)?;
    Ok(stage.figure("Round-trip times of packets", &caption, panels))
}

fn round_trips(scene: &Scene<'_>, guests: &Guests) -> Histogram {
    let mut all = Histogram::default();
    for flow in scene.flows(|flow| flow.group == guests.name) {
        if let Some(times) = &flow.packet_rtt {
            all.merge(times);
        }
    }
    all
}
