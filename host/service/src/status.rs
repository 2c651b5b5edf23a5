//! The status of the process that has a place: its task and its report, which it sends to root and to its own user on
//! request.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ask::ask;
use crate::place::{Place, Served};
use crate::task::{ServiceError, Task};

/// The status of a process. In JSON the fields of `setup` and of `done` stand beside `pid`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status<Setup, Done> {
    /// Process id of the command.
    pub pid: u32,
    /// The task that the process was given last.
    #[serde(flatten)]
    pub setup: Setup,
    /// The process's report on itself.
    #[serde(flatten)]
    pub done: Done,
}

impl<T: Task> Status<T, T::Done> {
    /// Creates the status of the calling process.
    pub fn own(setup: T, done: T::Done) -> Self {
        Self {
            pid: std::process::id(),
            setup,
            done,
        }
    }

    /// Asks the task's process in this network namespace for its status.
    ///
    /// # Errors
    /// [`ServiceError::Nobody`] if there is no such process, or [`ServiceError::Silent`].
    pub fn ask() -> Result<Self, ServiceError> {
        Self::ask_about(&())
    }

    /// Asks the task's process in this network namespace for its status, with a question that the process knows, such
    /// as about a flow.
    ///
    /// # Errors
    /// As [`Status::ask`].
    pub fn ask_about(question: &impl Serialize) -> Result<Self, ServiceError> {
        ask::<T, _>(question)
    }

    /// Takes the place of the task's one process in the network namespace.
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
