//! The ports at which `uc watch` watches flow starts. Handshakes wait in its process: if the agent or the process is
//! killed, the waiting packets are sent at once.

use std::ffi::OsString;

use uc_client::state::{CommandState, WatchState};
use uc_policy::WatchHost;
use uc_watch::{PortSetup, Status};

use crate::at_ports::{AtPort, PortCommand};
use crate::desired::Wanted;

const NO_KEY: &str = "the policy says start = \"watch\", and this host's file has no [agent.watch] \
                      with key_file and peers; add it, and restart the agent";

impl AtPort for PortSetup {
    const LACK: &'static str = "its flows start unwatched";

    fn of(ifindex: u32, port: &Wanted) -> Option<Self> {
        let name = port.name.clone();
        let start = port.start?;
        Some(PortSetup {
            name,
            ifindex,
            start,
        })
    }
}

/// Returns the command that runs `uc watch` on this host, with its key file and peers. `None`, because the host's file
/// has no `[agent.watch]`: a command that can work at no port. A fleet's policy may still ask for it.
pub fn command(host: Option<&WatchHost>) -> PortCommand<PortSetup> {
    let Some(host) = host else {
        return PortCommand::unable(NO_KEY);
    };
    let mut arguments = vec![OsString::from("--key-file"), host.key_file.clone().into()];
    let peers = host.peers.iter();
    arguments.extend(peers.map(|peer| format!("--peer={peer}").into()));
    PortCommand::with(arguments)
}

/// Returns the state of the process, if it has ports, then one state for each port that can't be watched.
pub fn states(command: Option<CommandState<Status>>) -> Vec<WatchState> {
    let Some(state) = command else {
        return Vec::new();
    };
    let running = WatchState {
        ports: state.ports,
        pid: state.process.map(|process| process.pid),
        starts: state.starts,
        error: state.error,
    };
    let refused = state.refused.into_iter().map(|(port, why)| WatchState {
        ports: vec![port],
        error: Some(why),
        ..WatchState::default()
    });
    let running = (!running.ports.is_empty()).then_some(running);
    running.into_iter().chain(refused).collect()
}
