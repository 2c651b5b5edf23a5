//! `uc check`: whether a policy is valid, and what the policy means for a port.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use uc_law::{Chosen, Law, Parameters, Profile, Row, Table, Value, Watch};
use uc_policy::dscp::{self, Dscp};
use uc_policy::range::PortRange;
use uc_policy::{
    Cgroups, Dupack, Fault, Hold, Planned, Policy, PolicyError, Rule, Split, Treatment, Tune,
};
use uc_port::{Match, PortCoupling, Prefix, ProgramObject};

use crate::laws;

/// Check a policy file, or show what it means for a port.
///
/// Every error is listed with its line and column and its remedy, and the exit status is 1. An agent refuses the same
/// files for the same reasons. The command reads only the file, the folder of --laws and, as the agent does, the
/// permissions of the folders that lead to the file; it changes nothing.
#[derive(Args)]
pub struct Check {
    /// Policy file to check, such as undercurrent.toml
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print what the policy means for the port with this interface name; give the port's
    /// alternative names by repeating the option
    #[arg(long, value_name = "NAME")]
    port: Vec<String>,
    /// The file is a fleet's policy, as stored in etcd
    #[arg(long)]
    fleet: bool,
    /// The file is a draft: do not refuse it because other users may write to it or its folders
    #[arg(long, conflicts_with = "fleet")]
    draft: bool,
    /// The policy may name laws that `uc law build` built in this folder
    #[arg(long, value_name = "DIR")]
    laws: Option<PathBuf>,
    /// Print the errors, or what the policy means for the port, as one JSON object
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of policy files, and do nothing else
    #[arg(long, exclusive = true)]
    schema: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    valid: bool,
    faults: &'a [Fault],
    /// Why the policy file can't be read; `None` if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<PortAnswer>,
}

/// What the policy means for a port.
#[derive(Serialize)]
struct PortAnswer {
    name: String,
    /// Whether the policy names the port; if not, `rules` is empty and the other fields are missing.
    managed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flows_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dupack: Option<Dupack>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<Hold>,
    rules: Vec<RuleAnswer>,
}

#[derive(Serialize)]
struct RuleAnswer {
    /// Number of the rule in the file, from 1; 0 means `[defaults]`.
    rule: usize,
    line: usize,
    flows: Vec<MatchAnswer>,
    law: &'static str,
    profile: Profile,
    parameters: Parameters,
    ecn_syns: u8,
    share: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    coupling: Option<CouplingAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<Watch>,
}

#[derive(Serialize)]
struct MatchAnswer {
    local: String,
    remote: String,
    local_port: String,
    remote_port: String,
    /// Names of the DSCPs that the rule matches; empty: the rule matches any DSCP.
    dscp: Vec<String>,
}

#[derive(Serialize)]
struct CouplingAnswer {
    group: u32,
    prefix4: u8,
    prefix6: u8,
    priority: u8,
    priorities: Vec<(u16, u8)>,
}

impl Check {
    /// Checks the file and prints the answer; returns false if the policy is invalid.
    pub fn execute(self) -> Result<bool> {
        if self.schema {
            outln!("{}", serde_json::to_string_pretty(&uc_policy::schema())?);
            return Ok(true);
        }
        if let Some(folder) = &self.laws {
            self.know_laws(folder)?;
        }
        let path = self.file.clone().unwrap_or_default();
        let policy = match self.read(&path) {
            Ok(policy) => policy,
            Err(PolicyError::Invalid(faults)) => {
                self.refuse(&faults)?;
                return Ok(false);
            }
            Err(error) => {
                self.say_unread(&error)?;
                return Err(error.into());
            }
        };
        if self.json {
            let answer = Answer {
                valid: true,
                faults: &[],
                error: None,
                port: self.port_answer(&policy),
            };
            outln!("{}", serde_json::to_string(&answer)?);
        } else {
            self.print(&path.display().to_string(), &policy);
        }
        Ok(true)
    }

    /// Makes the names of the laws in a folder known. Refuses a folder that an agent would refuse, unless the file is a
    /// draft.
    fn know_laws(&self, folder: &Path) -> Result<()> {
        if self.draft {
            return laws::read(folder).map(drop);
        }
        let path = folder.join(ProgramObject::FILE_NAME);
        let bytes = uc_files::read_bytes(&path, ProgramObject::BYTES_MAX)?;
        Law::tell_outside(ProgramObject::parse(&path, bytes)?.laws());
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Policy, PolicyError> {
        match (self.fleet, self.draft) {
            (true, _) => Policy::load_fleet(path),
            (false, true) => Policy::load_draft(path),
            (false, false) => Policy::load(path).map(|(policy, _)| policy),
        }
    }

    /// Prints why the file can't be read: with --json as an object, so that output is JSON even for an error.
    fn say_unread(&self, error: &PolicyError) -> Result<()> {
        if self.json {
            let answer = Answer {
                valid: false,
                faults: &[],
                error: Some(error.to_string()),
                port: None,
            };
            outln!("{}", serde_json::to_string(&answer)?);
        }
        Ok(())
    }

    fn refuse(&self, faults: &[Fault]) -> Result<()> {
        if self.json {
            let answer = Answer {
                valid: false,
                faults,
                error: None,
                port: None,
            };
            outln!("{}", serde_json::to_string(&answer)?);
            return Ok(());
        }
        for fault in faults {
            outln!("{fault}");
        }
        Ok(())
    }

    fn names(&self) -> Vec<&str> {
        self.port.iter().map(String::as_str).collect()
    }

    fn port_answer(&self, policy: &Policy) -> Option<PortAnswer> {
        let names = self.names();
        let name = (*names.first()?).to_owned();
        let Some(planned) = policy.plan_for(&names) else {
            return Some(PortAnswer {
                name,
                managed: false,
                tenant: None,
                weight: None,
                flows_max: None,
                strict: None,
                split: None,
                dupack: None,
                hold: None,
                rules: Vec::new(),
            });
        };
        let settings = planned.settings;
        Some(PortAnswer {
            name,
            managed: true,
            tenant: planned.tenant.map(|tenant| tenant.name.clone()),
            weight: Some(settings.weight),
            flows_max: Some(settings.flows_max),
            strict: Some(settings.strict),
            split: Some(settings.split),
            dupack: planned.dupack,
            hold: planned.hold,
            rules: planned
                .rules
                .iter()
                .map(|rule| rule_answer(rule, &planned))
                .collect(),
        })
    }

    fn print(&self, path: &str, policy: &Policy) {
        let names = self.names();
        let Some(name) = names.first() else {
            let (tenants, rules) = (policy.tenants.len(), policy.file.rules.len());
            outln!("{path}: valid; tenants: {tenants}, rules: {rules}");
            return;
        };
        match policy.plan_for(&names) {
            Some(planned) => {
                print_port(name, &planned);
                if planned.settings.split {
                    outln!("{}", splits(&policy.split));
                }
                if let Some(tune) = planned.tenant.and_then(|tenant| tenant.tune.as_ref()) {
                    outln!("{}", tunes(tune));
                }
                if let Some(dupack) = &planned.dupack {
                    outln!("{}", sends(dupack));
                }
                if let Some(hold) = &planned.hold {
                    outln!("{}", holds(hold));
                }
            }
            None => outln!("{name}: not in the policy; it is left alone"),
        }
    }
}

fn rule_answer(rule: &Rule, planned: &Planned<'_>) -> RuleAnswer {
    let treatment = &rule.treatment;
    // The tenant's coupling, if the rule names none.
    let group = planned.port.coupling.as_ref();
    let group = group.map_or(0, |coupling| coupling.group);
    RuleAnswer {
        rule: rule.number,
        line: rule.line,
        flows: rule.matches.iter().map(match_answer).collect(),
        law: treatment.law.name(),
        profile: treatment.profile,
        parameters: treatment.parameters.clone(),
        ecn_syns: treatment.ecn_syns,
        share: treatment.share,
        coupling: treatment.coupling.as_ref().map(|coupling| CouplingAnswer {
            group,
            prefix4: coupling.prefix4,
            prefix6: coupling.prefix6,
            priority: coupling.priority,
            priorities: coupling.priorities.clone(),
        }),
        watch: treatment.watch.clone(),
    }
}

fn match_answer(matches: &Match) -> MatchAnswer {
    let range = |(first, last)| PortRange { first, last }.to_string();
    MatchAnswer {
        local: matches.local.to_string(),
        remote: matches.remote.to_string(),
        local_port: range(matches.local_ports),
        remote_port: range(matches.remote_ports),
        dscp: match matches.dscps {
            dscp::ANY => Vec::new(),
            mask => Dscp::names(mask),
        },
    }
}

fn print_port(name: &str, planned: &Planned<'_>) {
    let owner = match planned.tenant {
        Some(tenant) => format!("tenant {}", tenant.name),
        None => "no tenant".to_owned(),
    };
    let flows = match planned.settings.flows_max {
        0 => "any number of flows".to_owned(),
        most => format!("at most {most} flows"),
    };
    let weight = planned.settings.weight;
    let strict = if planned.settings.strict {
        ", strict"
    } else {
        ""
    };
    let filtered = if planned.settings.filtered_addresses {
        ", filtered addresses"
    } else {
        ""
    };
    outln!(
        "{name}: {owner}, weight {weight}, {flows}{strict}{filtered}; the first rule that matches holds"
    );
    for rule in &planned.rules {
        let place = match rule.number {
            0 => "defaults".to_owned(),
            number => format!("rule {number} (line {})", rule.line),
        };
        outln!("{place}: {}", describe(&rule.treatment, planned));
        for matches in &rule.matches {
            outln!("    {}", flows_of(matches));
        }
    }
}

/// Describes how the port's connections are split.
fn splits(split: &Split) -> String {
    let ports: Vec<String> = split.tcp_ports.iter().map(PortRange::to_string).collect();
    let control = split.congestion_control.as_deref();
    format!(
        "split: TCP connections {}, {}; {} with {} towards far ends",
        if split.inbound {
            "of the guest and to it"
        } else {
            "of the guest"
        },
        match ports.as_slice() {
            [] => "to all TCP ports".to_owned(),
            ports => format!("to TCP ports {}", ports.join(", ")),
        },
        if split.mptcp { "Multipath TCP" } else { "TCP" },
        control.unwrap_or("the host's congestion control")
    )
}

/// Describes how the tenant's containers are tuned.
fn tunes(tune: &Tune) -> String {
    let cgroups: Vec<String> = tune.cgroups.iter().map(Cgroups::to_string).collect();
    let control = tune.congestion_control.as_ref();
    let settings = [
        control.map(|name| format!("congestion control {name}")),
        tune.initial_window
            .map(|segments| format!("initial window {segments} segments")),
        tune.rto_min.map(|rto| format!("minimum RTO {rto}")),
    ];
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    format!(
        "tune: new connections of the tenant's control groups {} have {}",
        cgroups.join(", "),
        settings.join(", ")
    )
}

/// Describes when the port's guest gets duplicate ACKs.
fn sends(dupack: &Dupack) -> String {
    let short = dupack.short_tails.map_or_else(String::new, |later| {
        format!(", to short tails, too, and to lone segments {later} later")
    });
    format!(
        "dupack: duplicate ACKs to flows under a law that are silent for {} and longer than their path \
         explains{short}; SACK and timestamps are removed from them",
        dupack.least
    )
}

/// Describes which packets of the port's guest are held.
fn holds(hold: &Hold) -> String {
    let pace = hold
        .pace
        .then(|| "ACKs are spread over a round trip".to_owned());
    let buffer = hold.rto_min.map(|rto_min| {
        format!(
            "data of flows under a law is kept, and the host retransmits it with a minimum RTO of {rto_min}"
        )
    });
    let held: Vec<String> = pace.into_iter().chain(buffer).collect();
    format!("hold: {}; memory {}", held.join("; "), hold.memory)
}

/// Describes the flows of a match; conditions that accept anything are omitted.
fn flows_of(matches: &Match) -> String {
    let mut words = Vec::new();
    let range = |(first, last)| PortRange { first, last }.to_string();
    for (side, prefix, ports) in [
        ("local", matches.local, matches.local_ports),
        ("remote", matches.remote, matches.remote_ports),
    ] {
        if prefix != Prefix::ANY {
            words.push(format!("{side} {prefix}"));
        }
        if ports != Match::ALL.local_ports {
            words.push(format!("{side} port {}", range(ports)));
        }
    }
    if matches.dscps != dscp::ANY {
        words.push(format!("DSCP {}", Dscp::names(matches.dscps).join(" ")));
    }
    match words.is_empty() {
        true => "all flows".to_owned(),
        false => words.join(", "),
    }
}

/// Describes how a rule treats flows. Settings that differ from the defaults appear with their keys' names.
fn describe(treatment: &Treatment, planned: &Planned<'_>) -> String {
    let mut text = format!("law {}", treatment.law.name());
    if treatment.law == Law::PASS {
        text = "law pass: the flow is left alone".to_owned();
    } else {
        let profile = treatment.profile.name();
        text += &format!(", profile {profile}, ecn_syns {}", treatment.ecn_syns);
    }
    text += &written("parameters", &treatment.parameters);
    text += &treatment
        .watch
        .as_ref()
        .map_or_else(String::new, |watch| written("watch", watch));
    if let Some(coupling) = &treatment.coupling {
        let group = match (coupling.group, planned.tenant) {
            (PortCoupling::TENANT, Some(tenant)) => format!("of tenant {}", tenant.name),
            (PortCoupling::TENANT, None) => "of no tenant".to_owned(),
            (group, _) => group.to_string(),
        };
        let (v4, v6) = (coupling.prefix4, coupling.prefix6);
        text += &format!(", group {group} by /{v4} and /{v6}");
    }
    if treatment.share > 0 {
        text += &format!(", share {}", treatment.share);
    }
    if treatment.watch.is_some() {
        text += ", start watch";
    }
    text
}

/// Formats the values that the policy sets in a table, as the policy file has them.
fn written<Of: Table>(table: &str, chosen: &Chosen<Of>) -> String {
    let values = serde_json::to_value(chosen).unwrap_or_default();
    let key = |(row, _): (&Row<Of>, Value)| format!(", {table}.{} = {}", row.key, values[row.key]);
    chosen.iter().map(key).collect()
}
