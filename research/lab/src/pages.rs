//! Pages of a web server, each fetched over a connection of its own.

use uc_experiment::{Application, Guests};

use crate::epochs::Epochs;

/// The pages that a group's flows fetch: one in each epoch, over a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    /// Size of a page in bytes.
    pub bytes: u32,
    /// Size of a request in bytes.
    pub request_bytes: u32,
    /// Times of the requests.
    pub epochs: Epochs,
}

impl Pages {
    pub(crate) fn of(group: &Guests) -> Option<Self> {
        match group.application {
            Application::Epochs {
                size,
                request: Some(request),
                ..
            } => Some(Self {
                bytes: size.0,
                request_bytes: request.0,
                epochs: Epochs::of(group)?,
            }),
            _ => None,
        }
    }
}
