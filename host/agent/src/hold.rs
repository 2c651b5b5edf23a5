//! Ports that an operator took off the agent's hands. It must not fight for them: neither now nor
//! after a crash, so they are written down beside the socket. An agent that was ended in order and
//! is started again has them all back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use uc_client::state::PortState;
use uc_client::{AgentError, guarded};
use uc_policy::trusted;

/// Every port there is and will be.
const ALL: &str = "*";
/// Begins a line about one of all that isn't held; no interface's name has a slash.
const BUT: &str = "but/";

/// Which ports.
#[derive(Debug)]
pub struct Hold {
    path: PathBuf,
    which: Which,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    /// These.
    Only(BTreeSet<String>),
    /// All but these.
    AllBut(BTreeSet<String>),
}

impl Hold {
    /// As it was written down beside this socket.
    pub fn read(socket: &Path) -> Self {
        let path = guarded::beside(socket, "held");
        let text = trusted::read(&path).unwrap_or_default();
        let but = text.lines().filter_map(|line| line.strip_prefix(BUT));
        let which = match text.lines().any(|line| line == ALL) {
            true => Which::AllBut(but.map(str::to_owned).collect()),
            false => Which::Only(text.lines().map(str::to_owned).collect()),
        };
        Self { path, which }
    }

    /// Whether the port of this name is held.
    pub fn holds(&self, name: &str) -> bool {
        match &self.which {
            Which::Only(names) => names.contains(name),
            Which::AllBut(names) => !names.contains(name),
        }
    }

    /// Whether every port is, whatever a policy names.
    pub fn holds_all(&self) -> bool {
        matches!(&self.which, Which::AllBut(free) if free.is_empty())
    }

    /// Them; `*` for all.
    pub fn names(&self) -> Vec<String> {
        match &self.which {
            Which::Only(names) => names.iter().cloned().collect(),
            Which::AllBut(_) => vec![ALL.to_owned()],
        }
    }

    /// Where all are held: those that aren't.
    pub fn given_back(&self) -> Vec<String> {
        match &self.which {
            Which::Only(_) => Vec::new(),
            Which::AllBut(names) => names.iter().cloned().collect(),
        }
    }

    /// Holds these too, or all where none is named. Returns those among `ports` that this is about.
    ///
    /// # Errors
    /// Where it can't be written down; then it isn't so.
    pub fn take(
        &mut self,
        names: Vec<String>,
        ports: &[PortState],
    ) -> Result<Vec<String>, AgentError> {
        let mut wanted = self.which.clone();
        match &mut wanted {
            which if names.is_empty() => *which = Which::AllBut(BTreeSet::new()),
            Which::Only(held) => held.extend(names.iter().cloned()),
            Which::AllBut(free) => free.retain(|name| !names.contains(name)),
        }
        let about = about(&names, ports, |port| port.attached);
        self.write(wanted).map(|()| about)
    }

    /// Holds these no more, or none where none is named.
    ///
    /// # Errors
    /// Where it can't be written down; then it isn't so.
    pub fn release(
        &mut self,
        names: Vec<String>,
        ports: &[PortState],
    ) -> Result<Vec<String>, AgentError> {
        let mut wanted = self.which.clone();
        match &mut wanted {
            which if names.is_empty() => *which = Which::Only(BTreeSet::new()),
            Which::Only(held) => held.retain(|name| !names.contains(name)),
            // Ports to come stay held.
            Which::AllBut(free) => free.extend(names.iter().cloned()),
        }
        let about = about(&names, ports, |port| port.held);
        self.write(wanted).map(|()| about)
    }

    fn write(&mut self, which: Which) -> Result<(), AgentError> {
        let lines: Vec<String> = match &which {
            Which::Only(names) => names.iter().cloned().collect(),
            Which::AllBut(names) => {
                let but = names.iter().map(|name| format!("{BUT}{name}"));
                std::iter::once(ALL.to_owned()).chain(but).collect()
            }
        };
        guarded::write(&self.path, &lines.join("\n"))?;
        self.which = which;
        Ok(())
    }

    /// Nothing is held any more.
    pub fn forget(&mut self) {
        self.which = Which::Only(BTreeSet::new());
        // Usually there is none.
        let _missing = std::fs::remove_file(&self.path);
    }
}

fn about(names: &[String], ports: &[PortState], is: impl Fn(&PortState) -> bool) -> Vec<String> {
    let meant = |port: &&PortState| names.contains(&port.name) || names.is_empty() && is(port);
    ports
        .iter()
        .filter(meant)
        .map(|port| port.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports() -> Vec<PortState> {
        let port = |name: &str| PortState {
            name: name.to_owned(),
            attached: true,
            ..PortState::default()
        };
        vec![port("a"), port("b"), port("c")]
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_held_is_held_after_a_crash_and_not_after_an_end_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let mut hold = Hold::read(&socket);
        assert!(!hold.holds("a"));
        assert_eq!(hold.take(list(&["a"]), &ports()).unwrap(), ["a"]);
        let mut next = Hold::read(&socket);
        assert!(next.holds("a") && !next.holds("b"));
        next.forget();
        assert!(!Hold::read(&socket).holds("a"));
    }

    #[test]
    fn of_all_ports_that_are_held_one_can_be_given_back_and_those_to_come_stay_held() {
        let folder = tempfile::tempdir().unwrap();
        let mut hold = Hold::read(&folder.path().join("agent.sock"));
        assert_eq!(hold.take(Vec::new(), &ports()).unwrap(), ["a", "b", "c"]);
        assert!(hold.holds("a") && hold.holds("of tomorrow"));
        hold.release(list(&["b"]), &ports()).unwrap();
        let mut hold = Hold::read(&folder.path().join("agent.sock"));
        assert!(!hold.holds("b") && hold.holds("c") && hold.holds("of tomorrow"));
        assert_eq!(
            (hold.names(), hold.given_back()),
            (list(&["*"]), list(&["b"]))
        );
        hold.take(list(&["b"]), &ports()).unwrap();
        assert!(hold.holds("b") && hold.given_back().is_empty());
        hold.release(Vec::new(), &ports()).unwrap();
        assert!(!hold.holds("of tomorrow"));
        assert_eq!(hold.names(), list(&[]));
    }
}
