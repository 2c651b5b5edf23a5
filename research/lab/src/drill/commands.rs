//! What the shell commands of scripts do on a kernel.

use uc_drill::{Command, State, Stop};

use crate::netns::Namespace;

/// Runs a command inside the guest's namespace.
pub(super) fn run(guest: &Namespace, command: &str) -> Result<(), Stop> {
    match Command::parse(command)? {
        Command::Nothing => Ok(()),
        Command::Settings(settings) => settings
            .into_iter()
            .try_for_each(|(name, value)| set(guest, name, value)),
        Command::Count(state, wanted) => state.check(wanted, count(guest, state)?),
        Command::DropTimeWait => Err(Stop::Lacks("the command tcpdrop".to_owned())),
    }
}

/// Applies a setting of Linux, or of FreeBSD if Linux has its like.
fn set(guest: &Namespace, name: &str, value: &str) -> Result<(), Stop> {
    let lacks = || Stop::Lacks(format!("the setting {name}={value}"));
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
    let settings: Vec<_> = linux.iter().map(|name| (*name, value.to_owned())).collect();
    guest.set_sysctls(&settings).map_err(|_| lacks())
}

/// Returns how many sockets are in a state, by Linux's number of it.
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
