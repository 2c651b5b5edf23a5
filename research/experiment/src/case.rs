//! One network with its guests, run by itself: `[[case]]` and `[[case.guests]]`.

use serde::{Deserialize, Serialize};
use uc_law::{CouplingRules, Law, Parameters, Profile, StartLaw, Watch};

use crate::application::Application;
use crate::coupling::Coupling;
use crate::hypervisor::Hypervisor;
use crate::network::{Queue, Topology};
use crate::pattern::Pattern;
use crate::units::Nanos;

/// `[[case]]`: which guests send through the network. Cases of an experiment share nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, unique in the file.
    pub name: String,
    /// One line for people; its name where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The name of the receivers' `[stack.NAME]`; `server` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// The law on the receivers' ports; no program on them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_law: Option<Law>,
    /// The queue at this case's bottlenecks; the network's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Whose CPU the receivers share; each has its own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_hypervisor: Option<Hypervisor>,
    /// What the case's coupled groups are like.
    #[serde(default, skip_serializing_if = "CouplingRules::are_default")]
    pub coupling: CouplingRules,
    /// The groups of guests, each guest a sender.
    pub guests: Vec<Guests>,
}

impl Case {
    /// The line for people.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&Guests> {
        self.guests.iter().find(|guests| guests.name == name)
    }

    /// Whether the flows of that group have ports that only observe.
    pub fn is_observed(&self, group: &str) -> bool {
        self.group(group).is_some_and(Guests::is_observed)
    }
}

/// `[[case.guests]]`: a group of equal guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guests {
    /// The group's name, unique in its case.
    pub name: String,
    /// How many guests; one where absent.
    #[serde(default = "one")]
    pub count: u32,
    /// The name of their `[stack.NAME]`.
    pub stack: String,
    /// The law on their ports; no program on them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<Law>,
    /// The law's parameters.
    #[serde(default, skip_serializing_if = "Parameters::are_default")]
    pub parameters: Parameters,
    /// How literally the law is emulated; where absent, as the arm's own hosts do it (`linux` on
    /// real kernels, `rfc` in the simulator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The coupled congestion controller that overrules the guests' own, or, with law `coupled`,
    /// their ports' shadows; none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupling: Option<Coupling>,
    /// Beside a law that isn't `coupled`: whose sum of windows the flows' weights divide. `weight`
    /// is a guest's, `priority` a flow's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Coupling>,
    /// How its flows start; as the guests' own TCP and the law beside it have it where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_law: Option<StartLaw>,
    /// The parameters of the start `watch`.
    #[serde(default, skip_serializing_if = "Watch::are_default")]
    pub watch: Watch,
    /// Whose CPU the guests share; each has its own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<Hypervisor>,
    /// Parallel flows of each guest; one where absent.
    #[serde(default = "one")]
    pub flows: u32,
    /// What the flows carry.
    #[serde(default)]
    pub application: Application,
    /// Guests that name the same host share its uplink; each has a host of its own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The switch (of a parking lot) or leaf (of a leaf–spine network) where the guests are; the
    /// first, 0, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// The switch or leaf where their receivers are; the last where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Which hosts of a switch send to which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// When the flows start. Default 0s.
    #[serde(default)]
    pub start: Nanos,
    /// Each flow starts at a random moment within this time after `start`. Default 0s.
    #[serde(default)]
    pub start_spread: Nanos,
    /// When bulk flows end; at the end of the run where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Nanos>,
}

impl Guests {
    /// How many flows the whole group has.
    pub fn total_flows(&self) -> u32 {
        self.count.saturating_mul(self.flows)
    }

    /// How many messages all its flows begin, at most, where they begin at fixed times: one at the
    /// start, and one at each multiple of `every` after it; or one in each epoch. What begins when
    /// something else has ended is bounded by the network.
    pub fn timed_messages(&self, duration: Nanos) -> u128 {
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

    /// Whose window the flows share, whoever divides it.
    pub fn group(&self) -> Option<&Coupling> {
        self.share.as_ref().or(self.coupling.as_ref())
    }

    /// Whether not the guests' own TCP but their ports' shadows are in that group.
    pub fn is_coupled_by_port(&self) -> bool {
        self.share.is_some() || (self.coupling.is_some() && self.law == Some(Law::Coupled))
    }

    /// Whether a port is there that keeps a shadow and writes nothing.
    pub fn is_observed(&self) -> bool {
        self.law.is_some() && self.parameters.observe
    }

    /// The switches or leaves of the guests and of their receivers.
    pub fn ends(&self, topology: Topology) -> (u32, u32) {
        let last = topology.places().saturating_sub(1);
        (self.from.unwrap_or(0), self.to.unwrap_or(last))
    }
}

fn one() -> u32 {
    1
}
