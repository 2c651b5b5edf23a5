//! Runs with machines as guests: what they need, and what they are made of.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use uc_experiment::{Point, Stack};
use uc_vm::kernel::DEFAULT_SERIES;

/// Whether this machine can bring every guest: QEMU and the kernels are there. That they boot shows
/// when they do.
pub(super) fn check(points: &[Point]) -> Result<()> {
    uc_lab::need::check().context("guests' ports and their network are this kernel's")?;
    let mut series = BTreeSet::new();
    for point in points {
        let experiment = &point.experiment;
        let groups = experiment.cases.iter().flat_map(|case| &case.guests);
        let stacks = groups.filter_map(|guests| experiment.stacks.get(&guests.stack));
        series.extend(stacks.map(series_of));
    }
    uc_vm::check(series)?;
    Ok(())
}

fn series_of(stack: &Stack) -> &str {
    stack.kernel.as_deref().unwrap_or(DEFAULT_SERIES)
}
