//! Options of `uc top`, which shows ports and flows live in the terminal.

use std::path::PathBuf;

use clap::Args;

use crate::seen::{Filter, Order};

/// Watch ports and flows: their rates, and what holds them back.
///
/// ? lists the keys. With --record the samples are written to a file, which --replay shows later, on
/// any machine and without rights.
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
    /// Write each sample into this new file, one line of JSON each; without a terminal nothing is
    /// drawn, and Ctrl-C ends the recording
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(super) record: Option<PathBuf>,
    /// Show the samples of this recording instead of this host's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "interval"])]
    pub(super) replay: Option<PathBuf>,
    /// Speed of a replay: 2 is twice as fast as recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "replay",
          value_parser = speed)]
    pub(super) speed: f64,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().map_err(|error| error.to_string())?;
    let is_possible = (0.01..=1000.0).contains(&speed);
    is_possible
        .then_some(speed)
        .ok_or_else(|| format!("is {text}; give 0.01 to 1000"))
}
