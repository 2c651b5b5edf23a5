//! One network with its guests: `[[case]]` and `[[case.guests]]`.

use serde::{Deserialize, Serialize};
use uc_law::{CouplingRules, Law, Parameters, Profile, StartLaw, Watch, keys};

use crate::application::{Application, Listed};
use crate::coupling::Coupling;
use crate::dupack::Dupack;
use crate::hold::Hold;
use crate::hypervisor::Hypervisor;
use crate::network::{Network, Queue, Topology};
use crate::pattern::Pattern;
use crate::units::{BitsPerSec, Bytes, Nanos};

/// `[[case]]`: the guests that send through the network. Cases of an experiment share nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name, unique in the file.
    pub name: String,
    /// Title in one line; the name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Name of the receivers' `[stack.NAME]`; `server` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// Law on the receivers' ports; no program on them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_law: Option<Law>,
    /// Queue at this case's bottlenecks; the network's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Rate of a link that all receivers share. The first receiver's host grants first windows at this rate to all
    /// flows with a start law; if absent, each host grants them at the rate of its own link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<BitsPerSec>,
    /// Sharing of CPU cores by the receivers; if absent, each receiver has a core of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_hypervisor: Option<Hypervisor>,
    /// Rules of the case's coupled groups.
    #[serde(default, skip_serializing_if = "CouplingRules::are_default")]
    pub coupling: CouplingRules,
    /// Groups of guests; each guest is a sender.
    pub guests: Vec<Guests>,
}

impl Case {
    /// Returns the case's title.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the group of that name; `None` if the case has no such group.
    pub fn group(&self, name: &str) -> Option<&Guests> {
        self.guests.iter().find(|guests| guests.name == name)
    }

    /// Returns whether the ports of `group` only observe: they keep a shadow and write nothing.
    pub fn is_observed(&self, group: &str) -> bool {
        self.group(group).is_some_and(Guests::is_observed)
    }
}

/// `[[case.guests]]`: a group of equal guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guests {
    /// Name of the group, unique in its case.
    pub name: String,
    /// Number of guests. Default 1.
    #[serde(default = "one")]
    pub count: u32,
    /// Name of the guests' `[stack.NAME]`.
    pub stack: String,
    /// Law on the guests' ports; no program on them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<Law>,
    /// Parameters of the law of the guests' ports.
    #[serde(default, skip_serializing_if = "Parameters::are_default")]
    pub parameters: Parameters,
    /// TCP sender that the law's shadow imitates; if absent, `linux` on real kernels and `rfc` in
    /// the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Coupled congestion controller that overrules the guests' own TCP or, with law `coupled`,
    /// their ports' shadows; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupling: Option<Coupling>,
    /// With a law other than `coupled`: the group whose flows divide the sum of their laws' windows by weight. `weight`
    /// is that of each guest, `priority` that of each flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Coupling>,
    /// Duplicate ACKs that the ports send when a flow has gone silent; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dupack: Option<Dupack>,
    /// Packets that the ports hold: ACKs that are spread, data that is retransmitted; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Start law of the flows; if absent, they start as the guests' TCP and the port's law do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_law: Option<StartLaw>,
    /// Parameters of the start law `watch`.
    #[serde(default, skip_serializing_if = "Watch::are_default")]
    pub watch: Watch,
    /// Sharing of CPU cores by the guests; if absent, each guest has a core of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<Hypervisor>,
    /// Number of parallel flows of each guest. Default 1.
    #[serde(default = "one")]
    pub flows: u32,
    /// Traffic of the flows.
    #[serde(default)]
    pub application: Application,
    /// Name of the host. Guests that name the same host share its uplink; if absent, each guest has a host of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Switch (of a parking lot) or leaf (of a leaf–spine network) of the guests; the first, 0, if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// Switch or leaf of the guests' receivers; the last if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Receivers of each host's flows on a single switch or in a fat-tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// Start of the flows. Default 0s.
    #[serde(default)]
    pub start: Nanos,
    /// Maximum random delay of each flow's start after `start`. Default 0s.
    #[serde(default)]
    pub start_spread: Nanos,
    /// End of bulk flows; the end of the run if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Nanos>,
}

impl Guests {
    /// Returns the number of flows of the whole group.
    pub fn total_flows(&self) -> u32 {
        self.count.saturating_mul(self.flows)
    }

    /// Returns the maximum number of messages that begin at given times, over all flows: with `every` one at the start
    /// and one at each multiple of it, with epochs one in each epoch, and those of a list; else 0. Messages that begin
    /// when another has ended are bounded by the network.
    pub fn timed_messages(&self, duration: Nanos) -> u128 {
        if let Application::List(list) = &self.application {
            return list.len() as u128;
        }
        if let Application::Epochs { rounds, .. } = self.application {
            return u128::from(self.total_flows()) * u128::from(rounds);
        }
        let Application::Messages {
            every: Some(every), ..
        } = &self.application
        else {
            return 0;
        };
        let time_ns = duration.0.saturating_sub(self.start.0);
        u128::from(self.total_flows()) * (u128::from(time_ns / every.0.max(1)) + 1)
    }

    /// Returns the mean number of transfers per second that begin at each flow of application `web`: its `rate`, or
    /// load · link rate ÷ (8 · mean size · flows). On a single switch and in a fat-tree the link is the host's own, and
    /// the flows are those of one guest; elsewhere the link is the bottleneck, and the flows are those of the group.
    /// `None` for another application.
    pub fn arrivals_per_s(&self, network: &Network) -> Option<f64> {
        let Application::Web { rate, load, sizes } = &self.application else {
            return None;
        };
        let (link, flows) = match network.topology.hosts() {
            Some(_) => (network.access_rate(), self.flows),
            None => (network.rate, self.total_flows()),
        };
        let most = link.0 as f64 / (8.0 * sizes.mean_bytes() * f64::from(flows));
        rate.or(load.map(|load| load * most))
    }

    /// Returns the transfers of application `list` that `host` sends, in order of their times: target, payload, and
    /// time in the run. The earliest of the whole list is at the group's `start`. Empty for another application.
    pub fn listed_from(&self, host: u32) -> Vec<(u32, Bytes, Nanos)> {
        let Application::List(list) = &self.application else {
            return Vec::new();
        };
        let first = list.iter().map(|Listed(.., start)| *start).min();
        let after = |start: Nanos| start.0 - first.unwrap_or_default().0;
        let own = list.iter().filter(|Listed(source, ..)| *source == host);
        let in_run = |&Listed(_, target, size, start): &Listed| {
            (
                target,
                size,
                Nanos(self.start.0.saturating_add(after(start))),
            )
        };
        let mut found: Vec<_> = own.map(in_run).collect();
        found.sort_by_key(|(.., at)| *at);
        found
    }

    /// Returns the group whose window the flows share, by `share` or `coupling`; `None` if they share none.
    pub fn group(&self) -> Option<&Coupling> {
        self.share.as_ref().or(self.coupling.as_ref())
    }

    /// Returns whether the flows share a window by their ports' shadows, not by the guests' own TCP.
    pub fn is_coupled_by_port(&self) -> bool {
        self.share.is_some() || (self.coupling.is_some() && self.law == Some(Law::COUPLED))
    }

    /// Returns whether the group's ports keep a shadow and write nothing.
    pub fn is_observed(&self) -> bool {
        self.law.is_some() && self.parameters.has(keys::OBSERVE)
    }

    /// Returns the switch or leaf of the guests, and that of their receivers.
    pub fn ends(&self, topology: Topology) -> (u32, u32) {
        let last = topology.places().saturating_sub(1);
        (self.from.unwrap_or(0), self.to.unwrap_or(last))
    }
}

fn one() -> u32 {
    1
}
