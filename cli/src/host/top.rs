//! Options of `uc top`, which shows ports and flows live in the terminal.

use std::path::PathBuf;

use clap::Args;

use crate::host::seen::{Filter, Order};

/// Watch ports and flows with their rates.
///
/// Keys: up and down choose a flow, Enter shows its history, s sorts by the next column, q quits.
#[derive(Args)]
pub struct Top {
    /// Time between two samples
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub(super) interval: u64,
    /// Column by which flows are sorted
    #[arg(long, value_enum, default_value = "goodput")]
    pub(super) sort: Order,
    /// Show only matching flows, as in `uc flows`
    #[arg(long, value_name = "CONDITIONS")]
    pub(super) filter: Vec<Filter>,
    /// The agent's socket, instead of this host's
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
}
