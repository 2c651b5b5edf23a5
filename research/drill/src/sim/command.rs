//! The shell commands that a simulated host understands: settings, and the counts of sockets.

use uc_tcp::Stage;

use crate::sim::host::Host;
use crate::verdict::Stop;

impl Host {
    /// Runs a command of a script.
    pub(crate) fn run_command(&mut self, command: &str) -> Result<(), Stop> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["sysctl", settings @ ..] => settings
                .iter()
                .filter(|word| !word.starts_with('-'))
                .try_for_each(|setting| {
                    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
                    self.settings.take_sysctl(name, value)
                }),
            ["sockstat", .., "|", "grep", "-c", state, "|", "grep", count] => {
                self.counts(state, count)
            }
            ["tcpdrop", "-s", "TIME_WAIT"] => {
                self.ends
                    .retain(|_, end| end.connection.stage() != Stage::TimeWait);
                Ok(())
            }
            [] => Ok(()),
            [name, ..] => Err(Stop::Lacks(format!("the command {name}"))),
        }
    }

    /// Checks how many connections are in a state, by FreeBSD's name of it.
    fn counts(&self, state: &str, count: &str) -> Result<(), Stop> {
        let stage = match state {
            "TIME_WAIT" => Stage::TimeWait,
            "SYN_RCVD" => Stage::SynReceived,
            "CLOSED" => Stage::Closed,
            other => return Err(Stop::Lacks(format!("counting sockets in state {other}"))),
        };
        let seen = self
            .ends
            .values()
            .filter(|end| end.connection.stage() == stage)
            .count();
        if seen.to_string() == count {
            return Ok(());
        }
        Err(Stop::Differs(format!(
            "expected {count} sockets in {state}, seen {seen}"
        )))
    }
}
