//! What the shell commands of scripts do on a simulated host.

use uc_tcp::Stage;

use crate::command::{Command, State, lacks};
use crate::sim::host::Host;
use crate::verdict::Stop;

impl Host {
    /// Runs a command of a script.
    pub(crate) fn run_command(&mut self, command: &str) -> Result<(), Stop> {
        Command::parse(command)?
            .into_iter()
            .try_for_each(|command| self.run_one(command))
    }

    fn run_one(&mut self, command: Command<'_>) -> Result<(), Stop> {
        match command {
            Command::Settings(settings) => settings
                .into_iter()
                .try_for_each(|(name, value)| self.settings.take_sysctl(&name, &value)),
            Command::Count(state, wanted) => state.check(wanted, self.count(state)),
            Command::DropTimeWait => {
                self.ends
                    .retain(|_, end| end.connection.stage() != Stage::TimeWait);
                Ok(())
            }
            // A simulated host remembers nothing of its peers.
            Command::Forget | Command::ForgetPeers => Ok(()),
            Command::Other(line) => Err(lacks(line)),
            Command::Counter(name, _) => Err(Stop::Lacks(format!(
                "simulated hosts do not have the counter {name}"
            ))),
        }
    }

    /// Returns how many connections are in a state.
    fn count(&self, state: State) -> usize {
        let stage = match state {
            State::TimeWait => Stage::TimeWait,
            State::SynReceived => Stage::SynReceived,
            State::Closed => Stage::Closed,
        };
        let ends = self.ends.values();
        ends.filter(|end| end.connection.stage() == stage).count()
    }
}
