//! `uc status`: whether what the operator wants is in force, and each problem.

pub mod report;
mod rules;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use uc_client::AgentState;
use uc_client::state::{
    CanaryStage, CanaryState, DupackState, EtcdState, HoldState, PolicySource, SplitState,
    TuneState,
};
use uc_port::Store;

use crate::agent;
use crate::ports::flows;
use crate::seen::clock::time_of_day;
use report::{PortLine, Report};

/// Show the agent, its policy, the ports and packet counters.
///
/// Exit status 1: something that the policy wants is not in force; a port sees the packets of one
/// direction only; an agent does not answer; a port drains and no process waits for its flows; or there
/// is neither an agent nor an attached port.
#[derive(Args)]
pub struct Status {
    /// Socket of the agent [default: the running agent's, otherwise /run/undercurrent/agent.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Check only that the agent answers, whether or not the policy is in force: for liveness probes
    ///
    /// Prints nothing and reads no port. Exit status 2: no agent answers, or it hangs.
    #[arg(long, conflicts_with = "json")]
    alive: bool,
}

impl Status {
    /// Prints the report. Returns false, for exit status 1, if something that the policy wants is not in force.
    pub fn execute(self) -> Result<bool> {
        let client = agent::asked(self.socket);
        if self.alive {
            client.alive()?;
            return Ok(true);
        }
        let report = Report::read(&Store::default(), &client)?;
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            print_report(&report);
        }
        Ok(report.in_force)
    }
}

fn source(agent: &AgentState) -> String {
    let policy = &agent.policy;
    let revision = policy
        .revision
        .map_or_else(String::new, |revision| format!(", revision {revision}"));
    let from = match policy.source {
        PolicySource::None => return "none yet".to_owned(),
        PolicySource::File => format!("the file {}", policy.place),
        PolicySource::Etcd => format!("etcd's key {}{revision}", policy.place),
        PolicySource::Kept => format!("what was kept of etcd's key {}{revision}", policy.place),
    };
    let since = time_of_day(policy.since_unix_s as f64);
    format!(
        "{from}, checksum {}, generation {}, since {} UTC",
        policy.hash,
        policy.generation,
        &since[..8]
    )
}

fn etcd(etcd: &EtcdState) -> String {
    let place = format!("{} at {}", etcd.key, etcd.endpoints.join(", "));
    if etcd.connected {
        return format!("{place}, followed, revision {}", etcd.revision);
    }
    let why = etcd.error.as_deref().unwrap_or("not connected yet");
    format!("{place}: {why}; the last policy stays in force")
}

fn canary(canary: &CanaryState) -> String {
    let CanaryState { hash, why, .. } = canary;
    let why = why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {why}"));
    match canary.stage {
        CanaryStage::InForce => format!("policy {hash} is followed here"),
        CanaryStage::Tries => format!("policy {hash} is being tried here"),
        CanaryStage::Waits => {
            format!("policy {hash} waits{why}; the policy before it stays in force")
        }
        CanaryStage::Worse => format!("policy {hash} is not followed{why}"),
    }
}

fn withdrawn(agent: &AgentState) -> String {
    if agent.withdrawn != ["*"] {
        return agent.withdrawn.join(", ");
    }
    let but = match agent.given_back.is_empty() {
        true => String::new(),
        false => format!(" but {}", agent.given_back.join(", ")),
    };
    format!("all ports{but}, also those to come; `uc attach PORT` gives one back")
}

fn named(ports: &[String]) -> String {
    match ports {
        [] => "no port".to_owned(),
        ports => ports.join(", "),
    }
}

fn hold(hold: &HoldState) -> String {
    let ports = named(&hold.ports);
    let Some(process) = &hold.process else {
        return format!("{ports}: packets pass");
    };
    let of = |name| process.done.total(name);
    format!(
        "{ports}; {} ACKs paced, {} added; {} retransmissions of the host, {} timeouts; process {}",
        of("acks_paced"),
        of("acks_added"),
        of("retransmits"),
        of("timeouts"),
        process.pid
    )
}

fn dupack(dupack: &DupackState) -> String {
    let ports = named(&dupack.ports);
    let Some(process) = &dupack.process else {
        return format!("{ports}: guests wait for their timers");
    };
    let total = process.done.total();
    let unknown = match total.unknown_guests {
        0 => String::new(),
        rounds => format!("; {rounds} rounds for guests of unknown address"),
    };
    format!(
        "{ports}; {} duplicate ACKs to guests in {} rounds{unknown}; process {}",
        total.duplicate_acks, total.rounds, process.pid
    )
}

fn tune(tune: &TuneState) -> String {
    let connections: u64 = tune.groups.iter().map(|group| group.connections).sum();
    let refused: u64 = tune.groups.iter().map(|group| group.refused).sum();
    let refused = match refused {
        0 => String::new(),
        count => format!("; the kernel refused {count} settings (`uc tune --status`)"),
    };
    let count = tune.groups.len();
    format!("{count} control groups, {connections} connections{refused}")
}

fn split(split: &SplitState) -> String {
    let ports = named(&split.ports);
    let Some(process) = &split.process else {
        return format!("{ports}: new connections pass unsplit");
    };
    let (setup, totals) = (&process.setup, &process.done.totals);
    let control = setup.congestion_control.as_deref();
    let control = control.unwrap_or("the host's congestion control");
    let by = match split.ports.is_empty() {
        true => String::new(),
        false => format!(", new ones by {control}"),
    };
    format!(
        "{ports}; {} connections are split{by}; {} ended, {} of them by a reset; process {}",
        totals.open,
        totals.orderly + totals.reset,
        totals.reset,
        process.pid
    )
}

fn print_report(report: &Report) {
    match &report.agent {
        None if report.is_silent && !report.ports.is_empty() => {
            outln!("agent   does not answer; what follows is pinned");
        }
        None if report.ports.is_empty() => outln!("agent   none answers"),
        None => outln!("agent   none runs; what follows is pinned"),
        Some(agent) => {
            outln!("agent   process {}, version {}", agent.pid, agent.version);
            outln!("policy  {}", source(agent));
            if let Some(state) = &agent.etcd {
                outln!("etcd    {}", etcd(state));
            }
            if let Some(state) = &agent.canary {
                outln!("canary  {}", canary(state));
            }
            if let Some(state) = &agent.split {
                outln!("split   {}", split(state));
            }
            if let Some(state) = &agent.dupack {
                outln!("dupack  {}", dupack(state));
            }
            if let Some(state) = &agent.hold {
                outln!("hold    {}", hold(state));
            }
            if let Some(state) = &agent.tune {
                outln!("tune    {}", tune(state));
            }
            if !agent.withdrawn.is_empty() {
                outln!("held    {}", withdrawn(agent));
            }
        }
    }
    if !report.ports.is_empty() {
        outln!(
            "\n{:<16} {:<12} {:>5} {:>8} {:>8} {:>12} {:>12} {:>8}  state",
            "port",
            "tenant",
            "rules",
            "flows",
            "quota",
            "translated",
            "passed",
            "dropped"
        );
    }
    for port in &report.ports {
        print_port(port);
    }
    if report.packets.iter().any(|row| row.packets > 0) {
        outln!("\n{:>12}  packets by reason", "");
    }
    for row in report.packets.iter().filter(|row| row.packets > 0) {
        outln!("{:>12}  {}: {}", row.packets, row.reason, row.meaning);
    }
    outln!();
    for line in report.ports.iter().filter_map(PortLine::pressure) {
        outln!("pressure: {line}");
    }
    for line in &report.cautions {
        outln!("caution: {line}");
    }
    for line in report.agent.iter().flat_map(|agent| &agent.warnings) {
        outln!("warning: {line}");
    }
    for line in &report.amiss {
        outln!("amiss: {line}");
    }
    if report.in_force && report.agent.is_none() {
        outln!("these ports are in force without an agent; nobody follows a policy");
    } else if report.in_force && report.ports.is_empty() {
        outln!(
            "everything that is wanted is in force, but the policy names no interface of this host: \
             `ip -br link` lists them, and `uc check FILE --port NAME` tells what one gets"
        );
    } else if report.in_force {
        outln!("everything that is wanted is in force");
    }
}

/// Lists the laws of a port's rules; a port without rules has none, and its flows pass.
fn laws(port: &PortLine) -> String {
    let names: Vec<String> = port
        .laws
        .iter()
        .map(|line| match line.observed {
            true => format!("{} (observed)", line.law),
            false => line.law.clone(),
        })
        .collect();
    match names.is_empty() {
        true => "pass".to_owned(),
        false => names.join(", "),
    }
}

fn print_port(port: &PortLine) {
    let quota = match port.flows_max {
        0 => "free".to_owned(),
        most => most.to_string(),
    };
    let state = match (port.withdrawn, port.attached, &port.error) {
        (_, true, None) if port.draining.is_some() => {
            format!("drains: {}", flows(port.draining.unwrap_or(0) as usize))
        }
        (true, ..) => "held by an operator".to_owned(),
        (_, _, Some(error)) => error.clone(),
        (_, true, None) => format!("attached: {}", laws(port)),
        (_, false, None) => "not attached".to_owned(),
    };
    outln!(
        "{:<16} {:<12} {:>5} {:>8} {:>8} {:>12} {:>12} {:>8}  {state}",
        port.name,
        port.tenant.as_deref().unwrap_or(""),
        port.rules_in_force,
        port.flows,
        quota,
        port.translated,
        port.passed,
        port.dropped
    );
}
