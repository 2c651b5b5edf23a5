//! The cumulative distribution of transfers' completion times.

use uc_experiment::{Completion, Guests};

use super::cumulative::{self, Words};
use super::figure::{Context, Figure};
use crate::Error;
use crate::distribution;
use crate::run_set::RunSet;
use crate::words::count;

pub(super) fn cumulative(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let caption = format!(
        "All transfers of {}; a curve that ends below 1 has transfers that were not over when the \
         run was.",
        count(context.runs as usize, "run")
    );
    let words = Words {
        title: "Completion times",
        caption: &caption,
        x: "completion time, milliseconds",
        y: "fraction of the transfers",
    };
    cumulative::figure(context, &words, |set, guests| {
        let transfers = transfers(set, guests);
        let times_ms: Vec<f64> = transfers.iter().filter_map(time_ms).collect();
        distribution::cumulative(times_ms, transfers.len())
    })
}

fn transfers<'a>(set: &RunSet<'a>, guests: &Guests) -> Vec<&'a Completion> {
    let flows = set.flows(|flow| flow.group == guests.name);
    flows.flat_map(|flow| &flow.completions).collect()
}

fn time_ms(transfer: &&Completion) -> Option<f64> {
    let finished_ns = transfer.finished_ns?;
    Some(finished_ns.saturating_sub(transfer.started_ns) as f64 / 1e6)
}
