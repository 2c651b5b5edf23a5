//! What the process that has a place does and has done, which is its answer to everybody who asks.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ask::ask;
use crate::place::{Place, Served};
use crate::task::{ServiceError, Task};

/// The answer of a process. In JSON the fields of both parts stand beside its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status<Setup, Done> {
    /// Number of the process.
    pub pid: u32,
    /// The task that the process was given last.
    #[serde(flatten)]
    pub setup: Setup,
    /// What the process has done so far.
    #[serde(flatten)]
    pub done: Done,
}

impl<T: Task> Status<T, T::Done> {
    /// Creates the status of this process.
    pub fn own(setup: T, done: T::Done) -> Self {
        Self {
            pid: std::process::id(),
            setup,
            done,
        }
    }

    /// Asks the process of this network namespace.
    ///
    /// # Errors
    /// [`ServiceError::Nobody`] without one, or [`ServiceError::Silent`].
    pub fn ask() -> Result<Self, ServiceError> {
        Self::ask_about(&())
    }

    /// Asks the process of this network namespace a question that it knows.
    ///
    /// # Errors
    /// As [`Status::ask`].
    pub fn ask_about(question: &impl Serialize) -> Result<Self, ServiceError> {
        ask::<T, _>(question)
    }

    /// Takes the place of the network namespace's one process.
    pub fn take_place() -> Result<Place, ServiceError> {
        Place::take::<T>()
    }

    /// Answers a question that waits, if one does, with a status: for a process that may have no second thread.
    pub fn answer_waiting<Q: DeserializeOwned>(place: &Place, status: impl Fn(Q) -> Self) {
        place.answer_waiting(status);
    }

    /// Answers each question with a status, on a thread of its own, until the result is dropped.
    ///
    /// # Errors
    /// The kernel's refusal of a thread.
    pub fn serve<Q: DeserializeOwned>(
        place: Place,
        status: impl Fn(Q) -> Self + Send + 'static,
    ) -> Result<Served, ServiceError> {
        place.serve(status).map_err(|source| ServiceError::Kernel {
            command: T::COMMAND,
            action: "start the thread that answers",
            source,
        })
    }
}
