//! What the process that has a place does and has done, which is its answer to everybody who asks.

use std::fmt::Debug;
use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ask::{AskError, ask};
use crate::place::{Place, Served, TakeError};

/// What a command's one process in a network namespace is to do; it may change while the process runs. The default
/// is nothing.
pub trait Task: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned {
    /// The command, such as `uc split`.
    const COMMAND: &'static str;
    /// Name that the process takes, which only one process in a network namespace can have.
    const PLACE: &'static str;
    /// What the process has done so far, and can't do.
    type Done: Clone + Debug + Serialize + DeserializeOwned;

    /// Returns whether the process may end when it has nothing to do, because nothing is left of its earlier
    /// tasks.
    fn is_idle(_done: &Self::Done) -> bool {
        true
    }
}

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

/// Why a process has no status, or can't take its place.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No process has the place.
    #[error("no `{command}` runs in this network namespace; start one: {command} PORT")]
    Nobody {
        /// The command.
        command: &'static str,
    },
    /// A second process in one network namespace.
    #[error("`{command}` (process {pid}) runs in this network namespace already: end it first")]
    Taken {
        /// The command.
        command: &'static str,
        /// Number of the process that has the place.
        pid: i32,
    },
    /// The process does not answer, or is another user's.
    #[error(
        "`{command}` does not answer on the abstract socket '{place}' of this network namespace: {source}; end the \
         process that has it (`ss --listening --unix --processes`)"
    )]
    Silent {
        /// The command.
        command: &'static str,
        /// Name of its socket.
        place: &'static str,
        /// The error.
        source: io::Error,
    },
    /// The kernel refused something.
    #[error(
        "`{command}` can't {action}: {source}; raise the limits of open files and processes (`ulimit -n`, `ulimit -u`)"
    )]
    Kernel {
        /// The command.
        command: &'static str,
        /// The operation that failed.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Returns the error of a process that does not answer.
fn silent<T: Task>(source: io::Error) -> ServiceError {
    let (command, place) = (T::COMMAND, T::PLACE);
    ServiceError::Silent {
        command,
        place,
        source,
    }
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
        let command = T::COMMAND;
        ask(T::PLACE, question).map_err(|error| match error {
            AskError::Nobody => ServiceError::Nobody { command },
            AskError::Silent(source) => silent::<T>(source),
        })
    }

    /// Takes the place of the network namespace's one process.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn take_place() -> Result<Place, ServiceError> {
        let command = T::COMMAND;
        Place::take(T::PLACE).map_err(|error| match error {
            TakeError::Taken { pid } => ServiceError::Taken { command, pid },
            TakeError::Unknown(source) => silent::<T>(source),
            TakeError::Socket(source) => ServiceError::Kernel {
                command,
                action: "create the Unix socket on which it answers",
                source,
            },
        })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Ports {
        ports: Vec<String>,
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Sent {
        sent: BTreeMap<String, u64>,
        flow: Option<u64>,
    }

    impl Task for Ports {
        const COMMAND: &'static str = "uc test";
        const PLACE: &'static str = "undercurrent/test/status";
        type Done = Sent;
    }

    #[test]
    fn process_answers_with_its_number_task_and_counts_side_by_side() {
        type Status = super::Status<Ports, Sent>;
        assert!(matches!(Status::ask(), Err(ServiceError::Nobody { .. })));
        let setup = Ports {
            ports: vec!["tap0".into()],
        };
        let own = move |flow: Option<u64>| {
            let sent = [("tap0".to_owned(), u64::MAX)].into();
            Status::own(setup.clone(), Sent { sent, flow })
        };
        let place = Status::take_place().unwrap();
        let _served = Status::serve(place, own.clone()).unwrap();
        assert_eq!(Status::ask().unwrap(), own(None));
        assert_eq!(Status::ask_about(&Some(7)).unwrap(), own(Some(7)));
        let json = serde_json::to_value(own(None)).unwrap();
        let names: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(names, ["flow", "pid", "ports", "sent"]);
        let text = Status::take_place().unwrap_err().to_string();
        assert!(text.starts_with("`uc test` (process "), "{text}");
    }
}
