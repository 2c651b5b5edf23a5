//! The parts of an agent that parse what others wrote, each in a process without rights.

use uc_client::AgentError;

use crate::{guest_names, metrics};

/// A part of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Parses files of libvirt and CNI.
    Names,
    /// Serves metrics over HTTP.
    Metrics,
}

/// Gives up all rights, then runs the part until the agent at the other end of standard input ends.
pub fn confined(part: Part) -> Result<(), AgentError> {
    let failed = |error| AgentError::io("run without rights", error);
    uc_service::confine::enter().map_err(failed)?;
    let parent = uc_service::confine::parent().map_err(failed)?;
    match part {
        Part::Names => guest_names::serve(parent),
        Part::Metrics => metrics::serve(parent),
    }
    .map_err(failed)
}
