//! Settings of an agent when it starts.

use std::path::PathBuf;

use uc_port::ProgramObject;

use crate::guests::Places;

/// The agent's settings from its command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Path of the policy file.
    pub config: PathBuf,
    /// Whether to attach and detach once, then end.
    pub once: bool,
    /// Log filter from the command line, which replaces that of the policy file; `None`: not given.
    pub log: Option<String>,
    /// Whether to replace the pinned programs even if they are of this version.
    pub swap: bool,
    /// Folder with laws from outside the tree, which `uc law build` wrote; `None`: only the tree's laws.
    pub laws: Option<PathBuf>,
}

/// All settings of an agent except the policy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of the Unix socket on which the agent answers requests.
    pub socket: PathBuf,
    /// Folder for files that must outlive the agent.
    pub state: PathBuf,
    /// This host's name in a fleet: that of `uname -n`.
    pub host: String,
    /// Capacity of the flow table, in flows; applies when the table is created.
    pub flows_max: u32,
    /// Number of flows whose events are recorded; applies when the tables are created.
    pub events: u32,
    /// Fraction of the attached ports, 0 to 1, that a new policy may detach without confirmation.
    pub at_most_detached: f64,
    /// Whether to replace the programs, as in [`Options::swap`].
    pub swap: bool,
    /// The programs of ports, perhaps with laws from outside the tree.
    pub object: ProgramObject,
    /// The file's `[agent.watch]`, which `uc watch` needs; `None`: the file has none.
    pub watch: Option<uc_policy::WatchHost>,
    /// Folders that are searched for files with guests' names.
    pub places: Places,
}

impl Settings {
    /// Combines the file's `[agent]` and the command line.
    pub fn new(own: &uc_policy::Agent, options: &Options, object: ProgramObject) -> Self {
        Self {
            socket: own.socket.clone(),
            state: own.state.clone(),
            host: host_name(),
            flows_max: own.flows_max,
            events: own.events,
            at_most_detached: own.at_most_detached,
            swap: options.swap,
            object,
            watch: own.watch.clone(),
            places: Places::default(),
        }
    }
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
