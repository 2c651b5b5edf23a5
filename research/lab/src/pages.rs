//! Pages of a web server, each fetched over a connection of its own.

use uc_experiment::{Application, Guests, Nanos};

/// The pages that a group's flows fetch: one in each epoch, over a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    /// Size of a page in bytes.
    pub bytes: u32,
    /// Size of a request in bytes.
    pub request_bytes: u32,
    /// Number of epochs.
    pub rounds: u32,
    /// Start of the first epoch.
    pub start: Nanos,
    /// Interval between the starts of two epochs.
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
