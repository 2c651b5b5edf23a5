//! A histogram of the gaps between ACKs.

use uc_experiment::Guests;
use uc_experiment::record::ACK_GAP_BIN;

use super::figure::{Context, Figure};
use crate::Error;
use crate::axis::Axis;
use crate::chart::Mark;
use crate::panels::{Draft, on_axes};
use crate::run_set::RunSet;
use crate::words::count;

/// Number of bins; longer gaps are in the last one.
const BINS: usize = 15;

pub(super) fn histogram(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let draft = |set: &&RunSet<'_>| {
        let groups = set.case.guests.iter();
        let bins: Vec<(&Guests, Vec<f64>)> = groups
            .filter_map(|guests| Some((guests, mean_bins(set, guests)?)))
            .collect();
        let width = 0.8 / bins.len().max(1) as f64;
        let mut marks = Vec::new();
        for (number, (guests, means)) in bins.iter().enumerate() {
            for (bin, mean) in means.iter().enumerate().filter(|(_, mean)| **mean > 0.0) {
                let left = bin as f64 + 0.1 + width * number as f64;
                let mark = Mark::Bar {
                    x: left..left + width,
                    height: *mean,
                    whisker: 0.0..0.0,
                };
                marks.push((context.styles.style(set, &guests.name), mark));
            }
        }
        Draft::new(&set.title, marks)
    };
    let drafts: Vec<Draft> = context.shown.iter().map(draft).collect();
    let marks = drafts.iter().flat_map(|draft| &draft.marks);
    let heights: Vec<f64> = marks.map(|(_, mark)| mark.top()).collect();
    let least = heights.iter().copied().fold(1.0, f64::min);
    let most = heights.iter().copied().fold(1.0, f64::max);
    let y = Axis::logarithmic(least * 0.9..most, "gaps per flow and run");
    let caption = format!(
        "Gaps between ACKs that reached the sender in the measured part, in bins of {ACK_GAP_BIN}; \
         mean over the flows of a group and {}. The last bin has all longer ones too.",
        count(context.runs as usize, "run")
    );
    let panels = on_axes(drafts, &milliseconds(), &y)?;
    Ok(context.figure("Gaps between ACKs", &caption, panels))
}

/// Returns the mean number of gaps in each bin, per flow and run; `None` where the group's gaps were not recorded.
fn mean_bins(set: &RunSet<'_>, guests: &Guests) -> Option<Vec<f64>> {
    let flows = set.flows(|flow| flow.group == guests.name);
    let watched: Vec<&Vec<u32>> = flows.filter_map(|flow| flow.ack_gaps.as_ref()).collect();
    let mut bins = vec![0.0; BINS];
    for (bin, count) in watched.iter().flat_map(|gaps| gaps.iter().enumerate()) {
        bins[bin.min(BINS - 1)] += f64::from(*count) / watched.len() as f64;
    }
    (!watched.is_empty()).then_some(bins)
}

fn milliseconds() -> Axis {
    let bin_ms = ACK_GAP_BIN.0 / 1_000_000;
    let ends = (0..=BINS).step_by(2);
    let ticks = ends.map(|bin| (bin as f64, (bin as u64 * bin_ms).to_string()));
    Axis::at(0.0..BINS as f64, "gap, milliseconds", ticks.collect())
}
