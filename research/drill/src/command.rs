//! The shell commands of scripts that have a meaning on any host: settings, and the counts of sockets.

use std::fmt;

use crate::verdict::Stop;

/// A shell command of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// The command is empty.
    Nothing,
    /// `sysctl NAME=VALUE…`: names and values in order; a name without `=` has the value "".
    Settings(Vec<(&'a str, &'a str)>),
    /// `sockstat … | grep -c STATE | grep COUNT`: this many sockets must be in a state.
    Count(State, &'a str),
    /// `tcpdrop -s TIME_WAIT`: all connections in TIME-WAIT end.
    DropTimeWait,
}

/// A state that scripts count sockets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// TIME-WAIT.
    TimeWait,
    /// SYN-RECEIVED.
    SynReceived,
    /// CLOSED.
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
    /// Reads FreeBSD's name of a state.
    fn parse(name: &str) -> Result<Self, Stop> {
        let all = [Self::TimeWait, Self::SynReceived, Self::Closed];
        let found = all.into_iter().find(|state| state.to_string() == name);
        found.ok_or_else(|| Stop::Lacks(format!("counting sockets in state {name}")))
    }

    /// Checks a count of sockets in this state.
    ///
    /// # Errors
    /// [`Stop::Differs`] if the script wants another.
    pub fn check(self, wanted: &str, seen: usize) -> Result<(), Stop> {
        if seen.to_string() == wanted {
            return Ok(());
        }
        Err(Stop::Differs(format!(
            "expected {wanted} sockets in {self}, seen {seen}"
        )))
    }
}

impl<'a> Command<'a> {
    /// Reads a shell command.
    ///
    /// # Errors
    /// [`Stop::Lacks`] with the name of any other command or state.
    pub fn parse(text: &'a str) -> Result<Self, Stop> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [] => Ok(Self::Nothing),
            ["sysctl", settings @ ..] => {
                let settings = settings.iter().filter(|word| !word.starts_with('-'));
                let pair = |setting: &&'a str| setting.split_once('=').unwrap_or((*setting, ""));
                Ok(Self::Settings(settings.map(pair).collect()))
            }
            ["sockstat", .., "|", "grep", "-c", state, "|", "grep", count] => {
                Ok(Self::Count(State::parse(state)?, count))
            }
            ["tcpdrop", "-s", "TIME_WAIT"] => Ok(Self::DropTimeWait),
            [name, ..] => Err(Stop::Lacks(format!("the command {name}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_counts_and_drops_are_read_and_others_are_named() {
        let settings = vec![("a.b", "1"), ("c", "")];
        assert_eq!(
            Command::parse("sysctl -w a.b=1 c"),
            Ok(Command::Settings(settings))
        );
        let count = Command::parse("sockstat -P tcp | grep -c SYN_RCVD | grep 2");
        assert_eq!(count, Ok(Command::Count(State::SynReceived, "2")));
        assert_eq!(
            Command::parse("tcpdrop -s TIME_WAIT"),
            Ok(Command::DropTimeWait)
        );
        assert_eq!(Command::parse("  "), Ok(Command::Nothing));
        for (text, named) in [
            ("rm -r x", "the command rm"),
            (
                "sockstat | grep -c LISTEN | grep 1",
                "counting sockets in state LISTEN",
            ),
        ] {
            assert_eq!(Command::parse(text), Err(Stop::Lacks(named.to_owned())));
        }
    }

    #[test]
    fn a_count_is_compared_as_the_script_writes_it() {
        assert_eq!(State::Closed.check("2", 2), Ok(()));
        let differs = "expected 1 sockets in TIME_WAIT, seen 2".to_owned();
        assert_eq!(State::TimeWait.check("1", 2), Err(Stop::Differs(differs)));
    }
}
