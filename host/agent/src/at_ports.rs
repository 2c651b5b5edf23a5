//! A command that works at each port independently: if it fails at one port, it works at the others and retries that
//! one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use uc_client::state::CommandState;
use uc_service::{PortTask, Ports, Status};

use crate::command::Running;
use crate::desired::Wanted;

/// A command's task at one port, as the policy wants it.
pub trait AtPort: PortTask {
    /// For the log: what a port lacks while the command's process can't work there.
    const LACK: &'static str;

    /// Returns the task at the port with this interface index; `None`: the policy wants nothing of this command there.
    fn of(ifindex: u32, port: &Wanted) -> Option<Self>;
}

/// A command's process, and the ports at which it works. If the process ends, the ports' programs stay attached, and
/// the process is started again.
#[derive(Debug)]
pub struct PortCommand<P: AtPort> {
    enabled: bool,
    /// Why the command can't work at any port of this host; `None`: it can.
    unable: Option<&'static str>,
    running: Running<Ports<P>>,
    /// Ports at which the process can't work, each with the reason.
    refused: BTreeMap<String, String>,
}

impl<P: AtPort> PortCommand<P> {
    /// Creates the state of a command on a host; its process has not started.
    pub fn new() -> Self {
        Self::with(Vec::new())
    }

    /// Creates the state of a command whose process gets these additional arguments; the process has not started.
    pub fn with(arguments: Vec<OsString>) -> Self {
        Self {
            enabled: true,
            unable: None,
            running: Running::with(arguments),
            refused: BTreeMap::new(),
        }
    }

    /// Creates the state of a command that can work at no port of this host, for the reason `why`.
    pub fn unable(why: &'static str) -> Self {
        Self {
            unable: Some(why),
            ..Self::new()
        }
    }

    /// Prevents the process from starting: an agent that ends after one pass cannot supervise it.
    pub fn disable(&mut self) {
        self.enabled = false;
    }

    /// Returns the longest time between two calls of [`PortCommand::look_after`].
    pub fn interval(&self) -> Duration {
        self.running.interval()
    }

    /// Sets the ports at which the process works from now on: those of `desired` that no operator has detached and for
    /// which the policy wants the command.
    pub fn want(&mut self, desired: &BTreeMap<u32, Wanted>) {
        if self.enabled {
            let wanted = desired.iter().filter(|(_, port)| !port.withdrawn);
            let wanted = wanted.filter_map(|(ifindex, port)| P::of(*ifindex, port));
            let ports: Vec<P> = wanted.collect();
            match self.unable {
                None => self.running.tell(Ports { ports }),
                Some(why) => {
                    let refuse = |port: &P| (port.name().to_owned(), why.to_owned());
                    self.refuse(ports.iter().map(refuse).collect());
                }
            }
        }
    }

    /// Starts the process when it is due, asks for its status, and ends it when it has nothing to do.
    pub fn look_after(&mut self) {
        if self.unable.is_some() {
            return;
        }
        self.running.look_after();
        let said = self.running.in_force();
        let refused = said.map(|said| P::refused(&said.done).clone());
        self.refuse(refused.unwrap_or_default());
    }

    fn refuse(&mut self, refused: BTreeMap<String, String>) {
        if refused != self.refused {
            for (port, why) in &refused {
                tracing::error!(port, why, "{}", P::LACK);
            }
            self.refused = refused;
        }
    }

    /// Ends the process that works at the ports.
    pub fn end(&mut self) {
        self.running.end();
    }

    /// Returns the state of the process and its ports; `None` if the process does not run and the policy wants the
    /// command at no port.
    pub fn state(&self) -> Option<CommandState<Status<Ports<P>, P::Done>>> {
        let ports = self.running.told().ports.iter();
        let ports = ports.map(|port| port.name().to_owned());
        let ports = ports.filter(|port| !self.refused.contains_key(port));
        self.running.state(ports.collect(), self.refused.clone())
    }
}
