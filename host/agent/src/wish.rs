//! What an operator may ask of the agent, and the answer when it is so.

use tokio::sync::oneshot;
use uc_client::AgentState;
use uc_client::state::PortState;

/// What an operator may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Take these ports off, or all; and keep them off.
    Hold(Vec<String>),
    /// Give these back, or all.
    Release(Vec<String>),
    /// As SIGHUP does it.
    Reload,
}

/// Where the answer goes: the ports that changed, or why none did.
pub type Reply = oneshot::Sender<Result<Vec<String>, String>>;

/// Who wished for something that is not known to be so yet, and the ports that it is about.
#[derive(Debug, Default)]
pub struct Waiting(Vec<(Vec<String>, Reply)>);

impl Waiting {
    /// One more.
    pub fn take(&mut self, names: Vec<String>, reply: Reply) {
        self.0.push((names, reply));
    }

    /// Tells all of them what came of it; `failed`: something did.
    pub fn answer(&mut self, state: &AgentState, failed: bool) {
        for (names, reply) in std::mem::take(&mut self.0) {
            let of = |port: &&PortState| names.contains(&port.name) && port.error.is_some();
            let error = state.ports.iter().find(of);
            let error = error.and_then(|port| port.error.clone());
            let error = error.or_else(|| state.error.clone().filter(|_| failed));
            // Whoever asked may have gone.
            let _gone = reply.send(error.map_or(Ok(names), Err));
        }
    }
}
