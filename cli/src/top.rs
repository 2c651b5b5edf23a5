//! Options of `uc top`, which shows ports and flows live in the terminal.

use std::path::PathBuf;

use clap::Args;

use crate::seen::{Filter, Order};

/// Watch ports and flows: their rates, and what holds them back.
///
/// ? lists the keys.
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
    /// Socket of the agent to ask, instead of the default path
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Removed; the error says what takes its place
    #[arg(long, hide = true, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Removed, like `--record`
    #[arg(long, hide = true, value_name = "FILE")]
    pub(super) replay: Option<PathBuf>,
}
