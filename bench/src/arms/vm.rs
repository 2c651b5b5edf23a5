//! Requirements and images of runs with VMs as guests.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use uc_experiment::{Point, Stack};
use uc_vm::Kernel;
use uc_vm::kernel::DEFAULT_SERIES;

/// Checks that this machine has what every guest needs: QEMU and the kernels.
pub(super) fn check(points: &[Point]) -> Result<()> {
    uc_lab::need::check().context("guests' ports and their network are this kernel's")?;
    // Kernel series, and whether PVTCP's module is wanted for each.
    let mut series: BTreeMap<&str, bool> = BTreeMap::new();
    for point in points {
        let experiment = &point.experiment;
        let groups = experiment.cases.iter().flat_map(|case| &case.guests);
        let stacks = groups.filter_map(|guests| experiment.stacks.get(&guests.stack));
        for stack in stacks {
            *series.entry(series_of(stack)).or_insert(false) |= stack.pvtcp.is_some();
        }
    }
    uc_vm::check(series.keys().copied())?;
    for (series, _) in series.into_iter().filter(|(_, pvtcp)| *pvtcp) {
        Kernel::find(series)?.pvtcp()?;
    }
    Ok(())
}

fn series_of(stack: &Stack) -> &str {
    stack.kernel.as_deref().unwrap_or(DEFAULT_SERIES)
}
