//! The cumulative distribution of packets' round-trip times.

use uc_experiment::{Guests, Histogram};

use super::cumulative::{self, Words};
use super::figure::{Figure, Stage};
use crate::Error;
use crate::distribution;
use crate::scene::Scene;
use crate::words::count;

pub(super) fn cumulative(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let caption = format!(
        "Of the data packets of the measured part that were sent once, of all flows of a group and \
         {}.",
        count(stage.runs as usize, "run")
    );
    let words = Words {
        title: "Round-trip times of packets",
        caption: &caption,
        x: "round-trip time, milliseconds",
        y: "fraction of the packets",
    };
    cumulative::figure(stage, &words, |scene, guests| {
        let times = round_trips(scene, guests);
        let ms = |(ns, count): (u64, u64)| (ns as f64 / 1e6, count);
        let counts: Vec<(f64, u64)> = times.cumulative().map(ms).collect();
        distribution::cumulative_counts(&counts, times.count())
    })
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
