//! Tasks that consist of one part for each port. A part that fails is tried again, and does not
//! stop the others.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::task::Task;

/// What a command is to do at a port.
pub trait PortTask: Clone + Debug + PartialEq + Serialize + DeserializeOwned {
    /// The command, such as `uc split`: [`Task::COMMAND`] of [`Ports`].
    const COMMAND: &'static str;
    /// Name of the command's place in a network namespace: [`Task::PLACE`] of [`Ports`].
    const PLACE: &'static str;
    /// The report of the process on the ports: [`Task::Done`] of [`Ports`].
    type Done: Clone + Debug + Serialize + DeserializeOwned;

    /// Returns the name of the port's interface.
    fn name(&self) -> &str;

    /// Returns the index of the port's interface.
    fn ifindex(&self) -> u32;

    /// Returns the ports at which the process can't do its task, each with the reason and the remedy.
    fn refused(done: &Self::Done) -> &BTreeMap<String, String>;
}

/// What a command is to do at ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports<P> {
    /// The settings of the ports; each port occurs once.
    pub ports: Vec<P>,
}

impl<P> Default for Ports<P> {
    fn default() -> Self {
        Self { ports: Vec::new() }
    }
}

impl<P: PortTask> Task for Ports<P> {
    const COMMAND: &'static str = P::COMMAND;
    const PLACE: &'static str = P::PLACE;
    type Done = P::Done;
}
