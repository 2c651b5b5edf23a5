//! A host whose agent has two ports: a guest behind one, its neighbour behind the other, and a server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_client::AgentState;
use uc_client::state::CommandState;
use uc_lab::netns::Namespace;

use super::agent::{Agent, Installation};
use super::ends::{listen, open};
use super::routed::{Routed, ip};
use super::uc::success;

/// A host with an agent, the guest behind port0, the neighbour behind port1, and a server.
pub struct Hosts {
    pub net: Routed,
    pub neighbour: Namespace,
    pub here: Installation,
    pub listener: TcpListener,
}

impl Hosts {
    /// Builds the hosts, and an installation with this policy.
    pub fn new(policy: &str) -> Self {
        let net = Routed::build(&[None], 1);
        let neighbour = Namespace::new("the neighbour").unwrap();
        let path = neighbour.path().display().to_string();
        let link = format!("link add port1 type veth peer name eth0 netns {path}");
        for change in [
            link.as_str(),
            "address add 10.8.0.1/24 dev port1",
            "link set port1 up",
        ] {
            ip(&net.host, change);
        }
        for change in [
            "address add 10.8.0.2/24 dev eth0",
            "link set eth0 up",
            "route add default via 10.8.0.1",
        ] {
            ip(&neighbour, change);
        }
        let listener = listen(&net.server, Routed::server(0, false, 80));
        Self {
            here: Installation::new(&net.host, policy, ""),
            net,
            neighbour,
            listener,
        }
    }

    /// Starts an agent, and waits until its policy is in force.
    pub fn start(&self) -> (Agent, AgentState) {
        let agent = self.here.start(&[]);
        (agent, self.in_force("the start"))
    }

    /// Waits until all that the policy wants is in force.
    pub fn in_force(&self, what: &str) -> AgentState {
        self.here.wait(what, AgentState::is_in_force)
    }

    /// Opens a connection of the guest to the server.
    pub fn guest(&self) -> (TcpStream, TcpStream) {
        open(&self.net.guest, &self.listener)
    }

    /// Opens a connection of the neighbour to the server.
    pub fn neighbour(&self) -> (TcpStream, TcpStream) {
        open(&self.neighbour, &self.listener)
    }

    /// Kills the process of a command that the agent runs for all ports. Checks that bytes of `ends` pass before and
    /// after, and that the agent reports why the process ended and starts it again, once. Returns the agent's state
    /// after that. `of` selects the command's state and its process ID.
    pub fn kill_process<D>(
        &self,
        ends: &(TcpStream, TcpStream),
        of: impl Fn(&AgentState) -> Option<(&CommandState<D>, u32)>,
    ) -> AgentState {
        let first = of(&self.in_force("the process")).unwrap().1;
        pass(ends);
        kill(Pid::from_raw(first as i32), Signal::SIGKILL).unwrap();
        pass(ends);
        let again = |state: &AgentState| {
            let another = of(state).is_some_and(|(command, _)| command.starts == 2);
            another && state.is_in_force()
        };
        let state = self.here.wait("another process", again);
        let (command, pid) = of(&state).unwrap();
        assert_ne!(pid, first);
        assert!(command.error.as_ref().unwrap().contains("signal 9"));
        state
    }

    /// Returns the output of `uc explain` for the connection of this end at this port.
    pub fn explain(&self, port: &str, end: &TcpStream) -> String {
        let address = end.local_addr().unwrap().to_string();
        success(self.here.uc(&["explain", port, &address]))
    }
}

/// Returns a policy with law `ecn`: `red` are the keys of port0's tenant, `blue` those of port1's tenant.
pub fn policy(red: &str, blue: &str) -> String {
    format!(
        "[defaults]\nlaw = \"ecn\"\n\n\
         [[tenant]]\nname = \"red\"\nports = \"port0\"\n{red}\n\n\
         [[tenant]]\nname = \"blue\"\nports = \"port1\"\n{blue}\n"
    )
}

/// Checks that bytes pass both ways.
pub fn pass(ends: &(TcpStream, TcpStream)) {
    for (mut from, mut to) in [(&ends.0, &ends.1), (&ends.1, &ends.0)] {
        std::thread::scope(|scope| {
            scope.spawn(move || from.write_all(&[7; 300_000]).unwrap());
            let mut received = vec![0; 300_000];
            to.read_exact(&mut received).unwrap();
            assert!(received.iter().all(|byte| *byte == 7));
        });
    }
}
