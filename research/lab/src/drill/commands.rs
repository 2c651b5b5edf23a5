//! What the shell commands of scripts do on a kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use uc_drill::{Command, State, Stop, lacks};

use crate::netns::Namespace;

/// State that commands of a script leave for later calls and commands.
#[derive(Default)]
pub(super) struct Left {
    /// Congestion control that a script sets but that can't be the namespace's default; new sockets select it one by
    /// one.
    pub(super) congestion_control: Option<String>,
    /// The kernel's counters at the last `nstat`.
    counters: BTreeMap<String, u64>,
    /// The folder in which a shell runs all other commands; `None`: no script may start programs.
    pub(super) folder: Option<PathBuf>,
}

/// Runs commands inside the guest's namespace. As in a shell, a setting or program that fails is an error only in the
/// last command.
pub(super) fn run(guest: &Namespace, commands: &str, left: &mut Left) -> Result<(), Stop> {
    let commands = Command::parse(commands)?;
    let last = commands.len().saturating_sub(1);
    for (index, command) in commands.into_iter().enumerate() {
        match command {
            Command::Settings(settings) => {
                for (name, value) in settings {
                    let done = set(guest, &name, &value, left);
                    if index == last {
                        done?;
                    }
                }
            }
            Command::Count(state, wanted) => state.check(wanted, count(guest, state)?)?,
            Command::ForgetPeers => shell(guest, Path::new("/"), "ip tcp_metrics flush all")?,
            Command::Other(line) => match &left.folder {
                Some(folder) => {
                    let done = shell(guest, folder, line);
                    if index == last {
                        done?;
                    }
                }
                None => return Err(lacks(line)),
            },
            Command::DropTimeWait => {
                return Err(Stop::Lacks(
                    "the command tcpdrop is not supported".to_owned(),
                ));
            }
            Command::Forget => left.counters = counters(guest)?,
            Command::Counter(name, wanted) => {
                let now = counters(guest)?;
                let of = |counters: &BTreeMap<_, _>| counters.get(name).copied().unwrap_or(0);
                let risen = of(&now) - of(&left.counters);
                left.counters = now;
                if wanted.map_or(risen == 0, |wanted| risen.to_string() != wanted) {
                    let wanted = wanted.unwrap_or("1 or more");
                    let why =
                        format!("expected counter {name} to rise by {wanted}, not by {risen}");
                    return Err(Stop::Differs(why));
                }
            }
        }
    }
    Ok(())
}

/// Runs a line in a shell inside the guest's namespace.
fn shell(guest: &Namespace, folder: &Path, line: &str) -> Result<(), Stop> {
    let mut shell = guest.command("sh");
    let output = shell.args(["-c", line]).current_dir(folder).output();
    let output = output.map_err(|error| Stop::Lacks(format!("could not run a shell: {error}")))?;
    match output.status.code() {
        Some(0) => Ok(()),
        // The shell's status for a program that is not installed.
        Some(127) => Err(lacks(line)),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = format!("`{line}` failed ({}): {}", output.status, said.trim());
            Err(Stop::Differs(why))
        }
    }
}

/// Returns the kernel's counters, as `nstat` names them.
fn counters(guest: &Namespace) -> Result<BTreeMap<String, u64>, Stop> {
    let read = guest.enter(|| {
        ["netstat", "snmp"].map(|file| {
            std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
        })
    });
    let tables = read.map_err(|error| Stop::Lacks(error.to_string()))?;
    let lines: Vec<_> = tables.iter().flat_map(|table| table.lines()).collect();
    let mut counters = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let names = pair[0].split_whitespace();
        let group = pair[0].split(':').next().unwrap_or("");
        for (name, value) in names.zip(pair[1].split_whitespace()).skip(1) {
            counters.insert(format!("{group}{name}"), value.parse().unwrap_or(0));
        }
    }
    Ok(counters)
}

/// Applies a sysctl of Linux, or Linux's equivalent of a sysctl of FreeBSD.
fn set(guest: &Namespace, name: &str, value: &str, left: &mut Left) -> Result<(), Stop> {
    let lacks = || Stop::Lacks(format!("the setting {name}={value} is not supported"));
    let linux: &[&str] = match (name, value) {
        ("net.inet.tcp.rfc1323", _) => &["net.ipv4.tcp_timestamps", "net.ipv4.tcp_window_scaling"],
        ("net.inet.tcp.sack.enable", _) => &["net.ipv4.tcp_sack"],
        ("net.inet.tcp.ecn.enable", _) => &["net.ipv4.tcp_ecn"],
        // What Linux does by itself, or remembers nothing of.
        ("net.inet.tcp.hostcache.purgenow", _)
        | ("net.inet.tcp.insecure_rst" | "net.inet.tcp.insecure_syn", "0")
        | ("net.inet.tcp.blackhole" | "net.inet.tcp.syncookies_only", "0")
        | ("net.inet.tcp.rexmit_drop_options", "0")
        | ("net.inet.tcp.rexmit_initial", "1000")
        | ("net.inet.tcp.drop_synfin", "1")
        | ("net.inet.tcp.delacktime", "40")
        | ("net.inet.tcp.syncookies", "1") => &[],
        // Sizes that only numbers of windows depend on.
        ("net.inet.tcp.recvspace" | "net.inet.tcp.sendspace" | "kern.ipc.maxsockbuf", _) => &[],
        (name, _) if name.starts_with("net.ipv") => &[name],
        _ => return Err(lacks()),
    };
    for name in linux {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let written = guest.enter(|| std::fs::write(path, value));
        match written.map_err(|error| Stop::Lacks(error.to_string()))? {
            Ok(()) => {}
            // Only the first namespace may make it the default of all.
            Err(_) if name.ends_with(".tcp_congestion_control") => {
                left.congestion_control = Some(value.to_owned());
            }
            Err(_) => return Err(lacks()),
        }
    }
    Ok(())
}

/// Returns the number of TCP sockets in a state inside the guest's namespace.
fn count(guest: &Namespace, state: State) -> Result<usize, Stop> {
    let number = match state {
        State::TimeWait => "06",
        State::SynReceived => "03",
        State::Closed => "07",
    };
    let read = guest.enter(|| {
        ["tcp", "tcp6"].map(|file| {
            std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
        })
    });
    let tables = read.map_err(|error| Stop::Lacks(error.to_string()))?;
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let is_in_it = |row: &&str| row.split_whitespace().nth(3) == Some(number);
    Ok(rows.filter(is_in_it).count())
}
