//! The shell commands of scripts that have a meaning on any host: settings, and the counts of sockets.

use std::fmt;

use crate::verdict::Stop;

/// Commands that a target ignores, since a new host needs none of them: one restores sysctls, the other gives the
/// interface a queue that does not pace.
const IDLE: [&str; 2] = [
    "tc qdisc add dev tun0 root pfifo",
    "/tmp/sysctl_restore_${PPID}.sh",
];

/// A shell command of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `sysctl NAME=VALUE…` and packetdrill's `set_sysctls.py`: names and values in order; a name
    /// without `=` has the value "".
    Settings(Vec<(String, String)>),
    /// `nstat` without a counter's name: counters count from 0.
    Forget,
    /// `nstat | grep NAME`: the kernel's counter NAME must have risen; with `| grep " COUNT "`, by COUNT.
    Counter(&'a str, Option<&'a str>),
    /// `sockstat … | grep -c STATE | grep COUNT`: exactly COUNT sockets must be in STATE.
    Count(State, &'a str),
    /// `tcpdrop -s TIME_WAIT`: all connections in TIME-WAIT end.
    DropTimeWait,
    /// `ip tcp_metrics flush all`: what the host knows of its peers is forgotten.
    ForgetPeers,
    /// Any other line, for a shell.
    Other(&'a str),
}

/// A state that scripts count sockets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// State TIME-WAIT of a connection.
    TimeWait,
    /// State SYN-RECEIVED of a connection.
    SynReceived,
    /// State CLOSED of a connection.
    Closed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeWait => "TIME_WAIT",
            Self::SynReceived => "SYN_RCVD",
            Self::Closed => "CLOSED",
        })
    }
}

impl State {
    /// Reads FreeBSD's name of a state; refuses states other than those of [`State`].
    fn parse(name: &str) -> Result<Self, Stop> {
        let all = [Self::TimeWait, Self::SynReceived, Self::Closed];
        let found = all.into_iter().find(|state| state.to_string() == name);
        found.ok_or_else(|| {
            Stop::Lacks(format!("counting sockets in state {name} is not supported"))
        })
    }

    /// Checks the number of sockets in this state: `wanted` by the script, `seen` on the target.
    ///
    /// # Errors
    /// [`Stop::Differs`] if the two numbers differ.
    pub fn check(self, wanted: &str, seen: usize) -> Result<(), Stop> {
        if seen.to_string() == wanted {
            return Ok(());
        }
        Err(Stop::Differs(format!(
            "expected {wanted} sockets in state {self}, found {seen}"
        )))
    }
}

impl<'a> Command<'a> {
    /// Reads shell commands, one per line. Leaves out comments, redirections of output, and commands that have no
    /// effect on a new host.
    ///
    /// # Errors
    /// [`Stop::Lacks`] with the name of a state whose sockets no target counts.
    pub fn parse(text: &'a str) -> Result<Vec<Self>, Stop> {
        // Comments, and where the output goes, are no part of a command.
        let until = |line: &'a str, end| line.split(end).next().unwrap_or(line);
        let lines = text.lines().map(|line| {
            let bare = until(until(until(line, "#"), " >"), " 2>");
            (line.trim(), bare.trim())
        });
        let busy = lines.filter(|(_, bare)| !bare.is_empty() && !IDLE.contains(bare));
        busy.map(|(whole, bare)| Self::parse_one(whole, bare))
            .collect()
    }

    fn parse_one(whole: &'a str, line: &'a str) -> Result<Self, Stop> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["sysctl", ..] => Ok(Self::Settings(settings(line, "sysctl"))),
            [name, ..] if name.ends_with("/set_sysctls.py") => {
                Ok(Self::Settings(settings(line, name)))
            }
            ["nstat"] | ["nstat", "-n" | "-s"] => Ok(Self::Forget),
            ["nstat", .., "|", "grep", name] => Ok(Self::Counter(name.trim_end_matches('|'), None)),
            ["nstat", "|" | "-s", .., "-q", "\"", count, "\""] => {
                let name = words.iter().find(|word| word.starts_with("TcpExt"));
                let name = name.map_or("", |name| name.trim_end_matches('|'));
                Ok(Self::Counter(name, Some(count)))
            }
            ["sockstat", .., "|", "grep", "-c", state, "|", "grep", count] => {
                Ok(Self::Count(State::parse(state)?, count))
            }
            ["ip", "tcp_metrics", "flush", "all"] => Ok(Self::ForgetPeers),
            ["tcpdrop", "-s", "TIME_WAIT"] => Ok(Self::DropTimeWait),
            _ => Ok(Self::Other(whole)),
        }
    }
}

/// Returns the stop for a shell command that the target does not support; its text names the command's first word.
pub fn lacks(line: &str) -> Stop {
    let name = line.split_whitespace().next().unwrap_or("");
    Stop::Lacks(format!("the command {name} is not supported"))
}

/// Reads `NAME=VALUE` words after `program`; a value may stand between double quotes.
fn settings(line: &str, program: &str) -> Vec<(String, String)> {
    let mut rest = line.trim_start_matches(program).trim_start();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (value, after) = match after.strip_prefix('=') {
            Some(text) => match text.strip_prefix('"').and_then(|text| text.split_once('"')) {
                Some(quoted) => quoted,
                None => text.split_at(text.find(' ').unwrap_or(text.len())),
            },
            None => ("", after),
        };
        if !name.starts_with('-') {
            let value: Vec<_> = value.split_whitespace().map(calculated).collect();
            let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
            found.push((name, value.join(" ")));
        }
        rest = after.trim_start();
    }
    found
}

/// Returns the number of `$((A*B))`, and any other text as it is.
fn calculated(text: &str) -> String {
    let inner = text
        .strip_prefix("$((")
        .and_then(|text| text.strip_suffix("))"));
    let factors = inner.map(|inner| inner.split('*').map(str::parse::<u64>));
    match factors.map(|factors| factors.product::<Result<u64, _>>()) {
        Some(Ok(product)) => product.to_string(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_counts_and_drops_are_read_and_others_are_named() {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (text, read) in [
            (
                "sysctl -w a.b=1 c",
                vec![Command::Settings(vec![own("a.b", "1"), own("c", "")])],
            ),
            (
                "#!/bin/bash\n# why\nip tcp_metrics flush all > /dev/null 2>&1\n\n\
                 sysctl -q a=\"1 2 $((3*4))\" b=5 > /dev/null 2>&1",
                vec![
                    Command::ForgetPeers,
                    Command::Settings(vec![own("a", "1 2 12"), own("b", "5")]),
                ],
            ),
            (
                "../set_sysctls.py /proc/sys/net/ipv4/tcp_sack=0\nnstat > /dev/null",
                vec![
                    Command::Settings(vec![own("net.ipv4.tcp_sack", "0")]),
                    Command::Forget,
                ],
            ),
            (
                "nstat -s | grep TcpExtBeyondWindow| grep -q \" 1 \"",
                vec![Command::Counter("TcpExtBeyondWindow", Some("1"))],
            ),
            (
                "nstat | grep TcpExtOutOfWindowIcmps > /dev/null",
                vec![Command::Counter("TcpExtOutOfWindowIcmps", None)],
            ),
            (
                "sockstat -P tcp | grep -c SYN_RCVD | grep 2",
                vec![Command::Count(State::SynReceived, "2")],
            ),
            (
                "sysctl net/ipv4/a=1",
                vec![Command::Settings(vec![own("net.ipv4.a", "1")])],
            ),
            ("tcpdrop -s TIME_WAIT", vec![Command::DropTimeWait]),
            (
                "tc qdisc del dev tun0 2>/dev/null ; true # why",
                vec![Command::Other(
                    "tc qdisc del dev tun0 2>/dev/null ; true # why",
                )],
            ),
            ("  ", vec![]),
        ] {
            assert_eq!(Command::parse(text), Ok(read), "{text}");
        }
        let named = "counting sockets in state LISTEN is not supported".to_owned();
        let refused = Command::parse("sockstat | grep -c LISTEN | grep 1");
        assert_eq!(refused, Err(Stop::Lacks(named)));
        assert_eq!(
            lacks("rm -r x"),
            Stop::Lacks("the command rm is not supported".to_owned())
        );
    }

    #[test]
    fn a_count_is_compared_as_the_script_writes_it() {
        assert_eq!(State::Closed.check("2", 2), Ok(()));
        let differs = "expected 1 sockets in state TIME_WAIT, found 2".to_owned();
        assert_eq!(State::TimeWait.check("1", 2), Err(Stop::Differs(differs)));
    }
}
