//! Parts of the agent that parse data of tenants or scrapers. Each runs in a process of its own without capabilities.

use uc_client::AgentError;

use crate::{guest_names, metrics};

/// A part of the agent that runs in a process without capabilities, because it parses data that others wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Parses the files of libvirt and CNI that name guests.
    Names,
    /// Serves the metrics over HTTP.
    Metrics,
}

/// Drops all capabilities of this process, then runs the part until the agent closes the other end of standard input.
pub fn confined(part: Part) -> Result<(), AgentError> {
    let failed = |error| AgentError::io("run without capabilities", error);
    uc_service::confine::enter().map_err(failed)?;
    let parent = uc_service::confine::parent().map_err(failed)?;
    match part {
        Part::Names => guest_names::serve(parent),
        Part::Metrics => metrics::serve(parent),
    }
    .map_err(failed)
}
