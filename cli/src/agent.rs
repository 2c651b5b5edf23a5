//! `uc agent`: the host's daemon in the foreground; and how `uc attach` and `uc detach` cooperate
//! with a running one.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use uc_agent::Options;
use uc_client::{AgentError, Client};

/// Keep every port of this host as the policy wants it.
///
/// Finds the ports that the policy names, attaches them, and follows changes of interfaces and of
/// the policy until a signal arrives. However it ends, ports stay attached and flows translated;
/// the next agent continues from there. SIGHUP makes it read the policy again, as does a change of
/// the file; an invalid policy leaves the old one in force.
#[derive(Args)]
pub struct Agent {
    /// The policy file; only its owner may have write permission
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/undercurrent/undercurrent.toml"
    )]
    config: PathBuf,
    /// Attach and detach what the policy wants, then end
    ///
    /// Exit status 1: something that the policy wants is not in force.
    #[arg(long)]
    once: bool,
    /// Log filter that replaces the file's: a level, or a filter such as info,uc_agent=debug
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Replace the programs of all ports even if they are this version's
    #[arg(long)]
    swap: bool,
    /// Run the programs that `uc law build` made in this folder on all ports; the policy can then name
    /// its laws
    #[arg(long, value_name = "DIR")]
    laws: Option<PathBuf>,
    /// Run this part of the agent without capabilities, for the agent at the other end of standard
    /// input
    #[arg(long, hide = true)]
    confined: Option<Part>,
}

/// A part of an agent that parses what others wrote.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Names of guests
    Names,
    /// Requests of scrapers
    Metrics,
}

impl Agent {
    /// Runs the agent until it is told to end. Returns false if its policy is invalid, or with `--once`
    /// if something that the policy wants is not in force.
    pub fn execute(self) -> Result<bool> {
        if let Some(part) = self.confined {
            uc_agent::confined(match part {
                Part::Names => uc_agent::Part::Names,
                Part::Metrics => uc_agent::Part::Metrics,
            })?;
            return Ok(true);
        }
        let options = Options {
            config: self.config,
            once: self.once,
            log: self.log,
            swap: self.swap,
            laws: self.laws,
        };
        match uc_agent::run(&options) {
            // The errors of a policy are an answer, on as many lines as there are errors.
            Err(AgentError::Policy(error)) if !error.faults().is_empty() => {
                errln!("{error}");
                Ok(false)
            }
            done => Ok(done?),
        }
    }
}

/// Returns a client of this host's agent, if one runs.
fn running() -> Option<Client> {
    let client = Client::of_host();
    client.is_there().then_some(client)
}

/// Returns a client of the agent that listens at `socket`, or of this host's.
pub fn asked(socket: Option<PathBuf>) -> Client {
    socket.map_or_else(Client::of_host, Client::at)
}

/// Makes the agent detach these ports, or all if none is named, and keep them detached. `None`: no
/// agent runs.
pub fn withdraw(ports: &[String]) -> Result<Option<Vec<String>>> {
    let Some(agent) = running() else {
        return Ok(None);
    };
    Ok(Some(agent.withdraw(ports)?.ports))
}

/// Gives these ports back to the agent, if one runs.
///
/// # Errors
/// If they aren't ports of its policy, which it would detach again; or if options contradict its
/// policy.
pub fn release(ports: &[String], options: &[String]) -> Result<Option<Vec<String>>> {
    let Some(agent) = running() else {
        return Ok(None);
    };
    let status = agent.status()?;
    if !options.is_empty() {
        let laws = match options.iter().any(|option| option == "--laws") {
            true => " (laws from outside come with `uc agent --laws DIR`)",
            false => "",
        };
        bail!(
            "an agent keeps this host's ports (process {}) as its policy says, so {} would have no \
             effect; write it into the policy, {}{laws}. Without options `uc attach` returns ports \
             to the agent",
            status.pid,
            options.join(", "),
            status.policy.place
        );
    }
    for name in ports {
        if status.ports.iter().any(|port| port.name == *name) {
            continue;
        }
        let other_name = status.ports.iter().find(|port| port.matched == *name);
        let why = match other_name {
            Some(port) => format!("another name of port {0}; run `uc attach {0}`", port.name),
            None => "not in its policy; name it there".to_owned(),
        };
        bail!(
            "an agent keeps this host's ports (process {}) and '{name}' is {why}",
            status.pid
        );
    }
    Ok(Some(agent.release(ports)?.ports))
}
