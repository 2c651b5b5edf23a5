//! Split connections: one process of `uc split` splits the connections of all ports with `split = true`. If it ends,
//! the ports' programs stay attached, and new connections pass unsplit until it runs again.
//!
//! The process applies a new task to new connections only. So neither a new policy nor a new port resets a connection;
//! and when no port is split any more, the process ends once the last split connection has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use uc_client::state::SplitState;
use uc_split::{PortRange, Setup, SplitError, interfaces};

use crate::command::Running;
use crate::desired::Wanted;
use crate::links::Link;

/// The ports whose connections are to be split, keyed by name. Each has the interface at which the host's IP layer
/// receives its packets, or the reason why it receives none.
type Places = BTreeMap<String, Result<String, String>>;

/// The process of `uc split`, and the ports that it should split.
#[derive(Debug)]
pub struct Splits {
    enabled: bool,
    running: Running<Setup>,
    /// Ports whose connections the policy wants split, and the settings of split connections.
    wanted: (Places, uc_policy::Split),
    /// Names of the ports whose connections the process was told to split.
    ports: Vec<String>,
    refused: BTreeMap<String, String>,
}

impl Splits {
    /// Creates the state of `uc split` on a host; its process has not started.
    pub fn new() -> Self {
        Self {
            enabled: true,
            running: Running::new(),
            wanted: Default::default(),
            ports: Vec::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Prevents the process from starting: an agent that ends after one pass cannot supervise it.
    pub fn disable(&mut self) {
        self.enabled = false;
    }

    /// Returns the longest time between two calls of [`Splits::look_after`].
    pub fn interval(&self) -> Duration {
        self.running.interval()
    }

    /// Splits new connections of the ports that the policy wants split. Ports that can't be split are refused before
    /// anything changes, and tried again at each call.
    pub fn want(
        &mut self,
        desired: &BTreeMap<u32, Wanted>,
        links: &[Link],
        policy: &uc_policy::Split,
    ) {
        let wanted = (places(desired, links), policy.clone());
        // What the host allowed once it may refuse to a process that has to start again.
        let is_well =
            self.running.told().interfaces.is_empty() || self.running.in_force().is_some();
        if !self.enabled || (wanted == self.wanted && self.refused.is_empty() && is_well) {
            return;
        }
        let before = std::mem::take(&mut self.refused);
        self.wanted = wanted;
        match fit(&self.wanted.0, setup(policy)) {
            Ok(fit) => {
                self.refused = fit.refused;
                self.ports = fit.ports;
                self.running.tell(fit.setup);
            }
            Err(error) => {
                let refuse = |port: &String| (port.clone(), error.to_string());
                self.refused = self.wanted.0.keys().map(refuse).collect();
                self.keep_wanted();
            }
        }
        if self.refused != before {
            for (port, why) in &self.refused {
                tracing::error!(port, why, "connections are not split as the policy wants");
            }
        }
    }

    /// Keeps the last task of the process, but without the ports that the policy does not want split any more.
    fn keep_wanted(&mut self) {
        let wanted = &self.wanted.0;
        self.ports.retain(|port| wanted.contains_key(port));
        let mut setup = self.running.told().clone();
        setup.keep(|name| wanted.values().flatten().any(|at| at == name));
        self.running.tell(setup);
    }

    /// Starts the process when it is due, asks for its status, and ends it when it has nothing to do.
    pub fn look_after(&mut self) {
        self.running.look_after();
    }

    /// Ends the process. Its split connections are reset.
    pub fn end(&mut self) {
        self.running.end();
    }

    /// Returns the state of `uc split`; `None` if the policy splits no port's connections and the process does
    /// not run.
    pub fn state(&self) -> Option<SplitState> {
        self.running.state(self.ports.clone(), self.refused.clone())
    }
}

/// Returns the setup of `uc split` that the policy asks for, without interfaces.
fn setup(policy: &uc_policy::Split) -> Setup {
    let range = |range: &uc_policy::range::PortRange| PortRange {
        first: range.first,
        last: range.last,
    };
    Setup {
        interfaces: Vec::new(),
        tcp_ports: policy.tcp_ports.iter().map(range).collect(),
        inbound: policy.inbound,
        congestion_control: policy.congestion_control.clone(),
        mptcp: policy.mptcp,
    }
}

/// Returns the interface at which the host's IP layer receives each split port's packets: the port itself, or the
/// bridge that it belongs to. A bridge's ports can only be split together.
fn places(desired: &BTreeMap<u32, Wanted>, links: &[Link]) -> Places {
    let is_split = |index| {
        let port: Option<&Wanted> = desired.get(&index);
        port.is_some_and(|port| port.split && !port.withdrawn)
    };
    let by_index: BTreeMap<u32, &Link> = links.iter().map(|link| (link.ifindex, link)).collect();
    // A port of each bridge that is not split.
    let mut whole: BTreeMap<u32, &str> = BTreeMap::new();
    for link in links.iter().filter(|link| !is_split(link.ifindex)) {
        whole.extend(link.master.map(|master| (master, link.name.as_str())));
    }
    let place = |index: &u32, name: &str| {
        let master = by_index.get(index).and_then(|link| link.master);
        let master = master.and_then(|master| by_index.get(&master));
        let Some(bridge) = master.filter(|master| master.is_bridge) else {
            return Ok(name.to_owned());
        };
        match whole.get(&bridge.ifindex) {
            None => Ok(bridge.name.clone()),
            Some(other) => Err(format!(
                "it is a port of bridge '{0}', whose port '{other}' is not split, and IP sees the packets of \
                 all of them at '{0}': split all ports of the bridge, or take '{name}' from it and route to it",
                bridge.name
            )),
        }
    };
    let split = desired.iter().filter(|(index, _)| is_split(**index));
    split
        .map(|(index, port)| (port.name.clone(), place(index, &port.name)))
        .collect()
}

/// The result of comparing the ports to be split with the abilities of this host.
struct Fit {
    /// The setup with the interfaces whose connections can be split.
    setup: Setup,
    /// Names of the ports whose connections are split.
    ports: Vec<String>,
    /// Ports that can't be split, each with the reason.
    refused: BTreeMap<String, String>,
}

/// Returns the ports to be split that this host can split, and those that it can't.
///
/// # Errors
/// Why this host can split no connection with this setup.
fn fit(places: &Places, mut setup: Setup) -> Result<Fit, SplitError> {
    setup.interfaces = places.values().flatten().cloned().collect();
    setup.interfaces.sort();
    setup.interfaces.dedup();
    if !setup.interfaces.is_empty() {
        uc_split::check_host(&setup)?;
    }
    let unfit = interfaces::refused(&setup.interfaces)?;
    setup.keep(|name| !unfit.contains_key(name));
    let (mut ports, mut refused) = (Vec::new(), BTreeMap::new());
    for (port, place) in places {
        let why = match place {
            Ok(interface) => unfit.get(interface).map(ToString::to_string),
            Err(why) => Some(why.clone()),
        };
        match why {
            None => ports.push(port.clone()),
            Some(why) => {
                refused.insert(port.clone(), why);
            }
        }
    }
    Ok(Fit {
        setup,
        ports,
        refused,
    })
}

#[cfg(test)]
mod tests {
    use uc_port::PortPlan;

    use super::*;

    /// Ports that are to be split, by index and name.
    fn desired(ports: &[(u32, &str, bool)]) -> BTreeMap<u32, Wanted> {
        let wanted = |(index, name, split): &(u32, &str, bool)| {
            let wanted = Wanted {
                name: (*name).to_owned(),
                matched: (*name).to_owned(),
                tenant: None,
                rules: 1,
                plan: PortPlan::default(),
                start: None,
                split: *split,
                filtered_addresses: false,
                dupack: None,
                hold: None,
                withdrawn: false,
            };
            (*index, wanted)
        };
        ports.iter().map(wanted).collect()
    }

    fn link(ifindex: u32, name: &str, master: Option<u32>) -> Link {
        Link {
            ifindex,
            name: name.to_owned(),
            is_bridge: name.starts_with("br"),
            master,
            ..Link::default()
        }
    }

    #[test]
    fn ports_of_a_bridge_are_split_together_or_refused() {
        let links = [
            link(1, "br0", None),
            link(2, "a", Some(1)),
            link(3, "b", Some(1)),
            link(4, "c", None),
            link(5, "red", None),
            link(6, "d", Some(5)),
        ];
        let all = [
            (2, "a", true),
            (3, "b", true),
            (4, "c", true),
            (6, "d", true),
        ];
        let at = |places: &Places, port: &str| places[port].clone();
        let found = places(&desired(&all), &links);
        let at_all = ["a", "b", "c", "d"].map(|port| at(&found, port).unwrap());
        assert_eq!(at_all, ["br0", "br0", "c", "d"]);
        let mut some = desired(&[(2, "a", true), (3, "b", false), (4, "c", true)]);
        let found = places(&some, &links);
        let why = at(&found, "a").unwrap_err();
        assert!(
            why.contains("port of bridge 'br0', whose port 'b' is not"),
            "{why}"
        );
        assert_eq!(at(&found, "c").unwrap(), "c");
        assert_eq!(found.len(), 2);
        some.get_mut(&4).unwrap().withdrawn = true;
        assert_eq!(places(&some, &links).len(), 1);
    }
}
