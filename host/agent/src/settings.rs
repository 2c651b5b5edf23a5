//! What an agent is told when it starts.

use std::path::PathBuf;

use uc_client::AgentError;
use uc_policy::trusted;

use crate::etcd::EtcdSettings;
use crate::guests::Places;

/// The command line's part.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The policy file.
    pub config: PathBuf,
    /// Attach and detach what has to be, and end.
    pub once: bool,
    /// A filter for the log, instead of the file's.
    pub log: Option<String>,
    /// Put new programs on the ports even where those pinned are this version's.
    pub swap: bool,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The control socket.
    pub socket: PathBuf,
    /// Room in the flow table, when it is made.
    pub flows_max: u32,
    /// Flows whose events are remembered, likewise.
    pub events: u32,
    /// See [`Options::swap`].
    pub swap: bool,
    /// What the start `watch` needs.
    pub watch: Option<uc_policy::WatchHost>,
    /// Where guests' names are.
    pub places: Places,
}

impl Settings {
    /// From the file's `[agent]` and the command line.
    pub fn new(own: &uc_policy::Agent, options: &Options) -> Self {
        Self {
            socket: own.socket.clone(),
            flows_max: own.flows_max,
            events: own.events,
            swap: options.swap,
            watch: own.watch.clone(),
            places: Places::default(),
        }
    }
}

impl EtcdSettings {
    /// From the file's `[agent.etcd]`, with the files that it names.
    ///
    /// # Errors
    /// What keeps one of them from being read.
    pub fn new(etcd: &uc_policy::Etcd) -> Result<Self, AgentError> {
        let read = |path: &PathBuf| trusted::read(path);
        let identity_pem = match &etcd.identity {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        Ok(Self {
            endpoints: etcd.endpoints.clone(),
            key: etcd.key.clone(),
            ca_pem: etcd.ca.as_ref().map(read).transpose()?,
            identity_pem,
        })
    }
}
