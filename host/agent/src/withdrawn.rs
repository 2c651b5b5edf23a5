//! Ports that an operator has detached from the agent (withdrawn). The agent must not attach them again, not even after
//! a crash, so their names are stored beside the socket. If the agent is ended in order, its next start manages all
//! ports again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use uc_client::AgentError;
use uc_client::state::PortState;

/// Stands in the file for every port, present and future.
const ALL: &str = "*";
/// Prefix of a line that names a port which an operator returned to the agent while all others stay withdrawn. An
/// interface's name has no slash, so it can't be confused with one.
const BUT: &str = "but/";

/// The ports that an operator withdrew from the agent by `uc detach`.
#[derive(Debug)]
pub struct Withdrawn {
    path: PathBuf,
    which: Which,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    /// Only the ports with these names are withdrawn.
    Only(BTreeSet<String>),
    /// All ports are withdrawn, also future ones, except those with these names.
    AllBut(BTreeSet<String>),
}

/// Returns ports to the agent that were attached by hand while no agent ran. `socket` is the path at which the next
/// agent will listen.
///
/// # Errors
/// As [`Withdrawn::read`]; or the names can't be stored.
pub fn give_back(socket: &Path, names: &[String]) -> Result<(), AgentError> {
    let mut withdrawn = Withdrawn::read(socket)?;
    match names.iter().any(|name| withdrawn.has(name)) {
        true => withdrawn.release(names.to_vec(), &[]).map(drop),
        false => Ok(()),
    }
}

impl Withdrawn {
    /// Reads the names that were stored beside this socket; none if there is no file.
    ///
    /// # Errors
    /// The file can't be read, or users other than root may write it: the withdrawn ports are not known.
    pub fn read(socket: &Path) -> Result<Self, AgentError> {
        let path = uc_files::beside(socket, "held");
        let text = match uc_files::read(&path) {
            Err(error) if error.is_absent() => String::new(),
            text => text?,
        };
        let but = text.lines().filter_map(|line| line.strip_prefix(BUT));
        let which = match text.lines().any(|line| line == ALL) {
            true => Which::AllBut(but.map(str::to_owned).collect()),
            false => Which::Only(text.lines().map(str::to_owned).collect()),
        };
        Ok(Self { path, which })
    }

    /// Returns whether an operator has detached the port of this name, so that the agent must not
    /// attach it.
    pub fn has(&self, name: &str) -> bool {
        match &self.which {
            Which::Only(names) => names.contains(name),
            Which::AllBut(names) => !names.contains(name),
        }
    }

    /// Returns whether every port is withdrawn, present and future.
    pub fn has_all(&self) -> bool {
        matches!(&self.which, Which::AllBut(free) if free.is_empty())
    }

    /// Returns the names of the withdrawn ports; `*` for all.
    pub fn names(&self) -> Vec<String> {
        match &self.which {
            Which::Only(names) => names.iter().cloned().collect(),
            Which::AllBut(_) => vec![ALL.to_owned()],
        }
    }

    /// Returns the names of the ports that were returned to the agent while all others are withdrawn; empty unless all
    /// others are.
    pub fn given_back(&self) -> Vec<String> {
        match &self.which {
            Which::Only(_) => Vec::new(),
            Which::AllBut(names) => names.iter().cloned().collect(),
        }
    }

    /// Withdraws these ports, too; all present and future ports if `names` is empty. Returns those among `ports` that
    /// `names` has; if it is empty, those that are attached.
    ///
    /// # Errors
    /// If the names can't be stored; then nothing changes.
    pub fn take(
        &mut self,
        names: Vec<String>,
        ports: &[PortState],
    ) -> Result<Vec<String>, AgentError> {
        let mut wanted = self.which.clone();
        match &mut wanted {
            which if names.is_empty() => *which = Which::AllBut(BTreeSet::new()),
            Which::Only(names_now) => names_now.extend(names.iter().cloned()),
            Which::AllBut(free) => free.retain(|name| !names.contains(name)),
        }
        let about = about(&names, ports, |port| port.attached);
        self.write(wanted).map(|()| about)
    }

    /// Gives these ports to the agent again, or all if `names` is empty. Returns those among `ports` that `names` has;
    /// if it is empty, those that were withdrawn.
    ///
    /// # Errors
    /// If the names can't be stored; then nothing changes.
    pub fn release(
        &mut self,
        names: Vec<String>,
        ports: &[PortState],
    ) -> Result<Vec<String>, AgentError> {
        let mut wanted = self.which.clone();
        match &mut wanted {
            which if names.is_empty() => *which = Which::Only(BTreeSet::new()),
            Which::Only(names_now) => names_now.retain(|name| !names.contains(name)),
            // Future ports stay withdrawn.
            Which::AllBut(free) => free.extend(names.iter().cloned()),
        }
        let about = about(&names, ports, |port| port.withdrawn);
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
        uc_files::write(&self.path, &lines.join("\n"))?;
        self.which = which;
        Ok(())
    }

    /// Clears the withdrawn ports, so that the agent manages all ports, and removes the stored file.
    pub fn forget(&mut self) {
        self.which = Which::Only(BTreeSet::new());
        // Usually the file does not exist.
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
    fn withdrawn_ports_stay_so_after_a_crash_and_not_after_an_orderly_end() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let mut withdrawn = Withdrawn::read(&socket).unwrap();
        assert!(!withdrawn.has("a"));
        assert_eq!(withdrawn.take(list(&["a"]), &ports()).unwrap(), ["a"]);
        let mut next = Withdrawn::read(&socket).unwrap();
        assert!(next.has("a") && !next.has("b"));
        next.forget();
        assert!(!Withdrawn::read(&socket).unwrap().has("a"));
    }

    #[test]
    fn names_that_cannot_be_read_are_an_error_and_withdraw_no_fewer_ports() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        std::fs::create_dir(folder.path().join("agent.sock.held")).unwrap();
        let error = Withdrawn::read(&socket).unwrap_err().to_string();
        assert!(error.contains("agent.sock.held"), "{error}");
    }

    #[test]
    fn if_all_ports_are_withdrawn_one_can_be_given_back_and_future_ones_stay_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut withdrawn = Withdrawn::read(&folder.path().join("agent.sock")).unwrap();
        assert_eq!(
            withdrawn.take(Vec::new(), &ports()).unwrap(),
            ["a", "b", "c"]
        );
        assert!(withdrawn.has("a") && withdrawn.has("of tomorrow"));
        withdrawn.release(list(&["b"]), &ports()).unwrap();
        let mut withdrawn = Withdrawn::read(&folder.path().join("agent.sock")).unwrap();
        assert!(!withdrawn.has("b") && withdrawn.has("c") && withdrawn.has("of tomorrow"));
        assert_eq!(
            (withdrawn.names(), withdrawn.given_back()),
            (list(&["*"]), list(&["b"]))
        );
        withdrawn.take(list(&["b"]), &ports()).unwrap();
        assert!(withdrawn.has("b") && withdrawn.given_back().is_empty());
        withdrawn.release(Vec::new(), &ports()).unwrap();
        assert!(!withdrawn.has("of tomorrow"));
        assert_eq!(withdrawn.names(), list(&[]));
    }
}
