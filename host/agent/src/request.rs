//! An operator's requests to the agent, and their replies.

use tokio::sync::oneshot;
use uc_client::AgentState;
use uc_client::state::PortState;

/// A request that an operator sends to the agent through its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Detach these ports, or all if the list is empty, and keep them detached.
    Withdraw(Vec<String>),
    /// Return these ports to the agent, or all if the list is empty, so that it attaches them again.
    Release(Vec<String>),
    /// Put the policy with this checksum into force, which waits for an operator's confirmation.
    Confirm(String),
    /// Read the policy again, like SIGHUP.
    Reload,
}

/// The channel of the reply: the names of the ports that changed, or the reason why none did.
pub type Reply = oneshot::Sender<Result<Vec<String>, String>>;

/// Requests that the engine has accepted and whose result is not known yet, each with its ports.
#[derive(Debug, Default)]
pub struct Waiting(Vec<(Vec<String>, Reply)>);

impl Waiting {
    /// Adds an operator's request, to be answered after the next reconciliation.
    pub fn take(&mut self, names: Vec<String>, reply: Reply) {
        self.0.push((names, reply));
    }

    /// Replies to all requests, with a port's error if it has one; `failed`: the reconciliation failed as a whole.
    pub fn answer(&mut self, state: &AgentState, failed: bool) {
        for (names, reply) in std::mem::take(&mut self.0) {
            let of = |port: &&PortState| names.contains(&port.name) && port.error.is_some();
            let error = state.ports.iter().find(of);
            let error = error.and_then(|port| port.error.clone());
            let error = error.or_else(|| state.error.clone().filter(|_| failed));
            // The requester may be gone.
            let _gone = reply.send(error.map_or(Ok(names), Err));
        }
    }
}
