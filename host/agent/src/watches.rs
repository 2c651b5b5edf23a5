//! Flows' starts: where a port's plan says `start = "watch"`, a process of `uc watch` has it. It is
//! a process of its own because handshakes wait in it: whoever is killed, agent or watcher, what
//! waits is sent at once by those who live.
//!
//! Ports whose starts are alike have one process together. When they become more or fewer it is
//! ended in order and another one started; until that has begun, flows start as if nobody watched.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use uc_client::state::WatchState;
use uc_policy::WatchHost;

use crate::desired::Wanted;
use crate::process::Process;
use crate::settings::Settings;

/// How often the processes are looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const NO_KEY: &str = "the policy says start = \"watch\", and this host's file has no [agent.watch] \
                      with key_file and peers";

/// The processes, by what is said of starts.
#[derive(Debug)]
pub struct Watches {
    host: Option<WatchHost>,
    enabled: bool,
    /// By their settings, as JSON.
    watches: BTreeMap<String, Watch>,
    /// Ports whose flows can't start so on this host: a fleet's policy doesn't know its file.
    impossible: Vec<String>,
}

#[derive(Debug)]
struct Watch {
    ports: Vec<String>,
    process: Process,
}

impl Watches {
    /// Returns the watches of a host, none of which has started.
    pub fn new(settings: &Settings) -> Self {
        Self {
            host: settings.watch.clone(),
            enabled: true,
            watches: BTreeMap::new(),
            impossible: Vec::new(),
        }
    }

    /// An agent that doesn't stay can't look after anybody.
    pub fn disable(&mut self) {
        self.enabled = false;
    }

    /// Returns the longest time between two calls of [`Watches::look_after`].
    pub fn interval(&self) -> Duration {
        if self.watches.is_empty() {
            Duration::MAX
        } else {
            LOOK_EVERY
        }
    }

    /// From now on these ports' starts are watched.
    pub fn want(&mut self, desired: &BTreeMap<u32, Wanted>) {
        if !self.enabled {
            return;
        }
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        self.impossible.clear();
        for port in desired.values().filter(|port| !port.withdrawn) {
            let Some(start) = &port.start else {
                continue;
            };
            let settings = serde_json::to_string(start).ok();
            match settings.filter(|_| self.host.is_some()) {
                Some(settings) => wanted.entry(settings).or_default().push(port.name.clone()),
                None => self.impossible.push(port.name.clone()),
            }
        }
        self.watches.retain(|settings, watch| {
            let stays = wanted.get(settings) == Some(&watch.ports);
            if !stays {
                watch.process.end();
            }
            stays
        });
        for (settings, ports) in wanted {
            self.watches.entry(settings).or_insert_with(|| Watch {
                ports,
                process: Process::new("uc watch"),
            });
        }
    }

    /// Starts what does not run, after a pause where it has ended.
    pub fn look_after(&mut self) {
        let Some(host) = &self.host else {
            return;
        };
        for (settings, watch) in &mut self.watches {
            if watch.process.look() {
                watch.start(settings, host);
            }
        }
    }

    /// Ends every `uc watch` process.
    pub fn end(&mut self) {
        for watch in self.watches.values_mut() {
            watch.process.end();
        }
        self.watches.clear();
    }

    /// Returns the state of each watch, and the ports that cannot be watched, with the reason.
    pub fn states(&self) -> Vec<WatchState> {
        let state = |watch: &Watch| WatchState {
            ports: watch.ports.clone(),
            pid: watch.process.pid(),
            starts: watch.process.starts(),
            error: watch.process.error().map(str::to_owned),
        };
        let impossible = (!self.impossible.is_empty()).then(|| WatchState {
            ports: self.impossible.clone(),
            error: Some(NO_KEY.to_owned()),
            ..WatchState::default()
        });
        self.watches.values().map(state).chain(impossible).collect()
    }
}

impl Watch {
    /// Starts `uc watch` with these settings, which it reads as JSON from its standard input.
    fn start(&mut self, settings: &str, host: &WatchHost) {
        let stdin = self.process.start(|command| {
            command
                .args(["watch", "--settings-on-stdin", "--key-file"])
                .arg(&host.key_file)
                .args(host.peers.iter().map(|peer| format!("--peer={peer}")))
                .arg("--")
                .args(&self.ports);
        });
        if let Some(mut stdin) = stdin {
            // The pipe has room for all of it. One that can't read it ends: look() sees that.
            let _written = stdin.write_all(settings.as_bytes());
            tracing::info!(ports = ?self.ports, pid = self.process.pid(), "starts are watched");
        }
    }
}
