//! Flows' starts: where a port's plan says `start = "watch"`, a process of `uc watch` has it. It is
//! a process of its own because handshakes wait in it: whoever is killed, agent or watcher, what
//! waits is sent at once by those who live.
//!
//! Ports whose starts are alike have one process together. When they become more or fewer it is
//! ended in order and another one started; until that has begun, flows start as if nobody watched.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_client::state::WatchState;
use uc_policy::WatchHost;

use crate::desired::Wanted;
use crate::settings::Settings;

/// How often the processes are looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// One that is to end and doesn't is killed then; what waits in it is sent by its holder.
const END_MOST: Duration = Duration::from_secs(2);
/// One that ended is started again after so long, then after twice as long.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MOST: Duration = Duration::from_secs(60);
/// One that ran so long begins again with the first of these pauses.
const STABLE: Duration = Duration::from_secs(60);

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
    child: Option<Child>,
    starts: u64,
    started: Instant,
    pause: Duration,
    error: Option<String>,
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
        for port in desired.values().filter(|port| !port.held) {
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
                watch.end();
            }
            stays
        });
        let Some(host) = &self.host else {
            return;
        };
        for (settings, ports) in wanted {
            self.watches.entry(settings).or_insert_with_key(|settings| {
                let mut watch = Watch {
                    ports,
                    child: None,
                    starts: 0,
                    started: Instant::now(),
                    pause: AGAIN_FIRST,
                    error: None,
                };
                watch.start(settings, host);
                watch
            });
        }
    }

    /// Starts again what has ended.
    pub fn look_after(&mut self) {
        let Some(host) = &self.host else {
            return;
        };
        for (settings, watch) in &mut self.watches {
            watch.look();
            if watch.child.is_none() && watch.started.elapsed() >= watch.pause {
                watch.pause = (watch.pause * 2).min(AGAIN_MOST);
                watch.start(settings, host);
            }
        }
    }

    /// Ends all of them.
    pub fn end(&mut self) {
        self.watches.values_mut().for_each(Watch::end);
        self.watches.clear();
    }

    /// Returns the state of each watch, and the ports that cannot be watched, with the reason.
    pub fn states(&self) -> Vec<WatchState> {
        let state = |watch: &Watch| WatchState {
            ports: watch.ports.clone(),
            pid: watch.child.as_ref().map(Child::id),
            starts: watch.starts,
            error: watch.error.clone(),
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
        // The agent's own program, also when its file has been replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["watch", "--settings-on-stdin", "--key-file"])
            .arg(&host.key_file)
            .args(host.peers.iter().map(|peer| format!("--peer={peer}")))
            .arg("--")
            .args(&self.ports);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let agent = std::process::id();
        // SAFETY: two system calls between fork and exec, which allocate nothing.
        unsafe { command.pre_exec(move || end_with(agent)) };
        self.started = Instant::now();
        self.starts += 1;
        match command.spawn() {
            Ok(mut child) => {
                if let Some(mut stdin) = child.stdin.take() {
                    // The pipe has room for all of it. One that can't read it ends: look() sees that.
                    let _written = stdin.write_all(settings.as_bytes());
                }
                tracing::info!(ports = ?self.ports, pid = child.id(), "starts are watched");
                self.child = Some(child);
            }
            Err(error) => self.fail(format!("could not start `uc watch`: {error}")),
        }
    }

    fn look(&mut self) {
        let Some(child) = &mut self.child else {
            return;
        };
        match child.try_wait() {
            Ok(None) if self.started.elapsed() >= STABLE => {
                self.pause = AGAIN_FIRST;
                self.error = None;
            }
            Ok(None) => {}
            Ok(Some(status)) => {
                self.child = None;
                self.fail(format!(
                    "`uc watch` ended ({}); the log says why",
                    ended(status)
                ));
            }
            Err(error) => {
                self.child = None;
                self.fail(format!("could not look after `uc watch`: {error}"));
            }
        }
    }

    fn fail(&mut self, error: String) {
        tracing::error!(ports = ?self.ports, error, "starts are not watched");
        self.error = Some(error);
    }

    /// In order, or else not.
    fn end(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // It has ended already where this fails.
        let _ended = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        let until = Instant::now() + END_MOST;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ended = child.kill();
                let _ended = child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// In the child: it is to end, in order, when the agent does, however that ends.
fn end_with(agent: u32) -> std::io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
    if nix::unistd::getppid().as_raw() as u32 != agent {
        return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}
