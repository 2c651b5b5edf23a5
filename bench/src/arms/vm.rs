//! What runs with VMs as guests need: QEMU, kernels, and the programs in the guests.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use uc_experiment::{Experiment, Guests, Point, Stack};
use uc_lab::vm::kernel::DEFAULT_SERIES;
use uc_lab::vm::{Kernel, Programs};
use uc_program::UC;

/// Checks that this machine has what every guest of these points needs: QEMU and the guests' kernels.
pub(super) fn check(points: &[Point]) -> Result<()> {
    uc_lab::need::check().context(
        "--on vm runs the guests' ports and the network on this host's kernel, which lacks \
         something",
    )?;
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
    uc_lab::vm::check(series.keys().copied())?;
    for (series, _) in series.into_iter().filter(|(_, pvtcp)| *pvtcp) {
        Kernel::find(series)?.pvtcp()?;
    }
    inside(points.iter().map(|point| &point.experiment)).map(drop)
}

/// Returns the programs in the guests: this program, and `uc` if guests couple their connections.
///
/// # Errors
/// `uc` is needed and not found.
pub(super) fn inside<'a>(
    experiments: impl IntoIterator<Item = &'a Experiment>,
) -> Result<Programs> {
    // valid even if the file of the running program was replaced
    let this = Programs::only(format!("/proc/{}/exe", std::process::id()));
    let mut cases = experiments.into_iter().flat_map(|of| &of.cases);
    let couples = cases.any(|case| case.guests.iter().any(couples));
    if !couples {
        return Ok(this);
    }
    let uc = UC
        .find()
        .context("the experiment has guests with `coupling`, in which the program `uc` runs")?;
    Ok(this.with(uc))
}

/// Returns whether these guests couple their own connections, instead of their shadows at the port.
fn couples(guests: &Guests) -> bool {
    guests.coupling.is_some() && !guests.is_coupled_by_port()
}

fn series_of(stack: &Stack) -> &str {
    stack.kernel.as_deref().unwrap_or(DEFAULT_SERIES)
}
