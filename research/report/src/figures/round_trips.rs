//! The cumulative distribution of packets' round-trip times.

use uc_experiment::{Guests, Histogram};

use super::cumulative::{self, Words};
use super::figure::{Context, Figure};
use crate::Error;
use crate::distribution;
use crate::run_set::RunSet;
use crate::words::count;

pub(super) fn cumulative(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let caption = format!(
        "Of the data packets of the measured part that were sent once, of all flows of a group and \
         {}.",
        count(context.runs as usize, "run")
    );
    let words = Words {
        title: "Round-trip times of packets",
        caption: &caption,
        x: "round-trip time, milliseconds",
        y: "fraction of the packets",
    };
    cumulative::figure(context, &words, |set, guests| {
        let times = round_trips(set, guests);
        let ms = |(ns, count): (u64, u64)| (ns as f64 / 1e6, count);
        let counts: Vec<(f64, u64)> = times.cumulative().map(ms).collect();
        distribution::cumulative_counts(&counts, times.count())
    })
}

fn round_trips(set: &RunSet<'_>, guests: &Guests) -> Histogram {
    let mut all = Histogram::default();
    for flow in set.flows(|flow| flow.group == guests.name) {
        if let Some(times) = &flow.packet_rtt {
            all.merge(times);
        }
    }
    all
}
