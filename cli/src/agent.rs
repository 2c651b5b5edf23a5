//! `uc agent`: the host's daemon in the foreground. Also how `uc attach` and `uc detach` cooperate with a running
//! agent.

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
    /// Attach and detach ports once, as the policy wants, then end
    ///
    /// Exit status 1: something that the policy wants is not in force.
    #[arg(long)]
    once: bool,
    /// Log filter that replaces the policy's `agent.log`: a level, or a filter such as info,uc_agent=debug
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Replace the programs of all ports even if the ports run this version's programs already
    #[arg(long)]
    swap: bool,
    /// Run the programs that `uc law build` made in this folder on all ports; the policy can then name
    /// the folder's laws
    ///
    /// Keep the option at later starts: an agent without it attaches nothing while ports run these programs.
    #[arg(long, value_name = "DIR")]
    laws: Option<PathBuf>,
    /// Run this part of the agent without capabilities, for the agent at the other end of standard
    /// input
    #[arg(long, hide = true)]
    confined: Option<Part>,
}

/// A part of an agent that parses data of guests or other hosts in a process without capabilities.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Parses the files that name guests
    Names,
    /// Answers requests of scrapers for metrics
    Metrics,
}

impl Agent {
    /// Runs the agent until it is told to end. Returns false if its policy is invalid; with `--once` also if something
    /// that the policy wants is not in force.
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

/// Returns a client of this host's agent; `None` if no agent runs.
fn running() -> Option<Client> {
    let client = Client::of_host();
    client.is_there().then_some(client)
}

/// Returns a client of the agent that listens at `socket`; with `None`, of this host's agent.
pub fn asked(socket: Option<PathBuf>) -> Client {
    socket.map_or_else(Client::of_host, Client::at)
}

/// Makes the agent detach these ports, or all if none is named, and keep them detached. Returns the ports that it
/// detached; `None` if no agent runs.
pub fn withdraw(ports: &[String]) -> Result<Option<Vec<String>>> {
    let Some(agent) = running() else {
        return Ok(None);
    };
    Ok(Some(agent.withdraw(ports)?.ports))
}

/// Returns these ports, or all if none is named, to the agent. The result names the ports that it took back; `None` if
/// no agent runs.
///
/// # Errors
/// A port is not in the agent's policy, so the agent would detach it again; or `options`, given on the command line,
/// would have no effect under the policy.
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
            "an agent (process {}) keeps this host's ports as its policy says, so {} would have no \
             effect; write the setting into the policy, {}{laws}. Without options `uc attach` \
             returns ports to the agent",
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
            None => "not in its policy; add it to a tenant's `ports` there".to_owned(),
        };
        bail!(
            "an agent (process {}) keeps this host's ports, and '{name}' is {why}",
            status.pid
        );
    }
    Ok(Some(agent.release(ports)?.ports))
}
