//! Pages of a web server: a group's flows whose clients connect for each.

use uc_experiment::{Application, Guests, Nanos};

/// The pages that a group's flows fetch: one in each epoch, on a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    /// Bytes of a page.
    pub bytes: u32,
    /// Bytes of the request for one.
    pub request_bytes: u32,
    /// How many epochs.
    pub rounds: u32,
    /// When the first begins.
    pub start: Nanos,
    /// From the beginning of one to that of the next.
    pub every: Nanos,
    /// Mean time between two requests in an epoch.
    pub gap: Nanos,
}

impl Pages {
    pub(crate) fn of(group: &Guests) -> Option<Self> {
        match group.application {
            Application::Epochs {
                size,
                rounds,
                every,
                gap,
                request: Some(request),
            } => Some(Self {
                bytes: size.0,
                request_bytes: request.0,
                rounds,
                start: group.start,
                every,
                gap,
            }),
            _ => None,
        }
    }
}
