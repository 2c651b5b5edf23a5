//! `uc watch` on the ports of a lab.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::rc::Rc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use uc_lab::netns::Namespace;

use super::bench::wait_until;

/// Prefixes of every lab's guests.
pub const PEERS: [&str; 4] = ["--peer", "10.77.0.0/24", "--peer", "fd77::/64"];

/// The two processes of `uc watch`, keeper and holder, in the hosts' namespace.
pub struct Watcher {
    keeper: Child,
    stdout: BufReader<ChildStdout>,
    _key: Key,
}

/// A key file, which is removed with its last owner.
#[derive(Clone)]
pub struct Key(Rc<tempfile::TempDir>);

impl Key {
    /// Makes a new key.
    pub fn make() -> Self {
        let key = Self(Rc::new(tempfile::tempdir().unwrap()));
        let mut make = Command::new(env!("CARGO_BIN_EXE_uc"));
        make.args(["watch", "--make-key"]).arg(key.path());
        assert!(make.stdout(Stdio::null()).status().unwrap().success());
        key
    }

    /// Returns the file's path.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("key")
    }
}

/// A process that grants first windows, in the hosts' namespace.
pub struct GranterProcess {
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl GranterProcess {
    /// Starts `uc watch --grant`; returns when it listens.
    pub fn start(key: &Key, hosts: &Namespace, address: &str, rate: &str) -> Self {
        let mut command = hosts.command(env!("CARGO_BIN_EXE_uc"));
        command.args(["watch", "--grant", rate, "--granter", address]);
        command.args(["--json", "--key-file"]).arg(key.path());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("{address}: grants")), "{line}");
        Self { process, stdout }
    }

    /// Returns its process id.
    pub fn id(&self) -> Pid {
        Pid::from_raw(self.process.id() as i32)
    }

    /// Asks it to end. Returns how many first windows it has granted, and how many had to wait.
    pub fn finish(mut self) -> (u64, u64) {
        kill(self.id(), Signal::SIGINT).unwrap();
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        assert!(self.process.wait().unwrap().success(), "{text}");
        let seen: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(seen["refused"], 0, "{text}");
        let count = |name: &str| seen[name].as_u64().unwrap();
        (count("granted"), count("waited"))
    }
}

impl Drop for GranterProcess {
    fn drop(&mut self) {
        // Leaves no process if a test failed meanwhile; otherwise it has ended.
        let _ended_already = self.process.kill();
        let _ended_already = self.process.wait();
    }
}

impl Watcher {
    /// Watches these ports; returns when a holder runs.
    pub fn start(hosts: &Namespace, ports: &[&str], arguments: &[&str]) -> Self {
        Self::start_among(hosts, ports, &PEERS, arguments)
    }

    /// Starts `uc watch` with these prefixes as peers.
    pub fn start_among(
        hosts: &Namespace,
        ports: &[&str],
        peers: &[&str],
        arguments: &[&str],
    ) -> Self {
        Self::start_with(&Key::make(), hosts, ports, &[peers, arguments].concat())
    }

    /// Starts `uc watch` with a key that other processes have, too; `arguments` name the peers.
    pub fn start_with(key: &Key, hosts: &Namespace, ports: &[&str], arguments: &[&str]) -> Self {
        let mut command = hosts.command(env!("CARGO_BIN_EXE_uc"));
        command.arg("watch").args(ports).args(arguments);
        command.args(["--json", "--key-file"]).arg(key.path());
        let mut keeper = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(keeper.stdout.take().unwrap());
        for port in ports {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, format!("{port}: watched\n"));
        }
        let watcher = Self {
            keeper,
            stdout,
            _key: key.clone(),
        };
        wait_until("a holder", || watcher.holder().is_some());
        // The holder's first beat comes within a millisecond of its start.
        std::thread::sleep(std::time::Duration::from_millis(50));
        watcher
    }

    /// Returns the keeper's process id.
    pub fn keeper(&self) -> Pid {
        Pid::from_raw(self.keeper.id() as i32)
    }

    /// Returns the holder's process id, if there is one at this moment.
    pub fn holder(&self) -> Option<Pid> {
        let id = self.keeper.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        let first = children.split_whitespace().next()?;
        first.parse().ok().map(Pid::from_raw)
    }

    /// Asks the keeper to end; returns its counters.
    pub fn finish(mut self) -> Seen {
        kill(self.keeper(), Signal::SIGINT).unwrap();
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        assert!(self.keeper.wait().unwrap().success(), "{text}");
        Seen(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// Kills the keeper with SIGKILL, and waits until its holder has ended too.
    pub fn kill(mut self) {
        let holder = self.holder().unwrap();
        self.keeper.kill().unwrap();
        self.keeper.wait().unwrap();
        wait_until("the holder's end", || !is_running(holder));
    }
}

/// Returns whether the process exists and runs; a zombie does not run.
fn is_running(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Leaves no process if a test failed meanwhile; otherwise it has ended.
        let _ended_already = self.keeper.kill();
        let _ended_already = self.keeper.wait();
    }
}

/// Final counters of a watch.
#[derive(Debug)]
pub struct Seen(Value);

impl Seen {
    /// Returns the count of this event.
    pub fn count(&self, event: &str) -> u64 {
        let rows = self.0["events"].as_array().unwrap();
        let row = rows.iter().find(|row| row["event"] == event);
        row.unwrap_or_else(|| panic!("no {event}"))["count"]
            .as_u64()
            .unwrap()
    }

    /// Returns how many processes that hold packets (`uc watch`'s children) have been started.
    pub fn holders(&self) -> u64 {
        self.0["holders"].as_u64().unwrap()
    }

    /// Returns every counter that is not zero, for messages.
    pub fn all(&self) -> String {
        let rows = self.0["events"].as_array().unwrap();
        let rows = rows.iter().filter(|row| row["count"] != 0);
        let rows: Vec<String> = rows
            .map(|row| format!("{} {}", row["event"].as_str().unwrap(), row["count"]))
            .collect();
        rows.join(", ")
    }
}
