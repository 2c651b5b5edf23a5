//! The shell commands of scripts that have a meaning for a kernel: settings, and counts of sockets.

use uc_drill::Stop;

use crate::netns::Namespace;

/// Runs a command inside the guest's namespace.
pub(super) fn run(guest: &Namespace, command: &str) -> Result<(), Stop> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["sysctl", settings @ ..] => settings
            .iter()
            .filter(|word| !word.starts_with('-'))
            .try_for_each(|setting| {
                let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
                set(guest, name, value)
            }),
        ["sockstat", .., "|", "grep", "-c", state, "|", "grep", count] => {
            counts(guest, state, count)
        }
        [] => Ok(()),
        [name, ..] => Err(Stop::Lacks(format!("the command {name}"))),
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

/// Checks how many sockets are in a state, by FreeBSD's name of it and Linux's number.
fn counts(guest: &Namespace, state: &str, count: &str) -> Result<(), Stop> {
    let number = match state {
        "TIME_WAIT" => "06",
        "SYN_RCVD" => "03",
        "CLOSED" => "07",
        other => return Err(Stop::Lacks(format!("counting sockets in state {other}"))),
    };
    let read = guest.enter(|| {
        ["tcp", "tcp6"].map(|file| {
            std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
        })
    });
    let tables = read.map_err(|error| Stop::Lacks(error.to_string()))?;
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let seen = rows
        .filter(|row| row.split_whitespace().nth(3) == Some(number))
        .count();
    if seen.to_string() == count {
        return Ok(());
    }
    Err(Stop::Differs(format!(
        "expected {count} sockets in {state}, seen {seen}"
    )))
}
