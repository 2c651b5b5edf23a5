//! Flows' starts: at which ports `uc watch` watches them. Handshakes wait in its process: whichever is killed, agent or
//! process, what waits is sent at once.

use std::ffi::OsString;

use uc_client::state::{CommandState, WatchState};
use uc_policy::WatchHost;
use uc_watch::{PortSetup, Status};

use crate::at_ports::{AtPort, PortCommand};
use crate::desired::Wanted;

const NO_KEY: &str = "the policy says start = \"watch\", and this host's file has no [agent.watch] \
                      with key_file and peers";

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

/// Returns the command of a host. A fleet's policy does not know whether a host has the key.
pub fn command(host: Option<&WatchHost>) -> PortCommand<PortSetup> {
    let Some(host) = host else {
        return PortCommand::unable(NO_KEY);
    };
    let mut arguments = vec![OsString::from("--key-file"), host.key_file.clone().into()];
    let peers = host.peers.iter();
    arguments.extend(peers.map(|peer| format!("--peer={peer}").into()));
    PortCommand::with(arguments)
}

/// Returns the state of the process, then of ports that can't be watched.
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
