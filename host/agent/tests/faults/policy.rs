//! What the operator wants: which interfaces are ports, and their rules.

use std::collections::BTreeSet;

use uc_faults::Dice;

/// Names that interfaces of the simulated host have.
pub const NAMES: [&str; 6] = ["v1", "v2", "v3", "v4", "w1", "w2"];

/// A policy: the names of its ports, and rules of one law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub ports: BTreeSet<String>,
    law: &'static str,
    rules: u64,
    /// Whether a fleet's version of the policy names this host as a canary.
    is_tried: bool,
}

impl Intent {
    /// Returns a policy for these ports.
    pub fn of(ports: &[&str]) -> Self {
        Self {
            ports: ports.iter().map(ToString::to_string).collect(),
            law: "coupled",
            rules: 2,
            is_tried: false,
        }
    }

    /// Returns the policy with this host as a canary.
    pub fn tried(mut self) -> Self {
        self.is_tried = true;
        self
    }

    /// Draws a random policy, in most cases for most of the ports.
    pub fn draw(dice: &mut Dice) -> Self {
        let few = dice.once_in(6);
        let wants = |dice: &mut Dice| {
            if few {
                dice.once_in(5)
            } else {
                !dice.once_in(5)
            }
        };
        let ports = NAMES
            .iter()
            .filter(|_| wants(dice))
            .map(ToString::to_string);
        let ports = ports.collect();
        let laws = ["ecn", "dctcp", "coupled"];
        Self {
            ports,
            law: dice.one_of(&laws).copied().unwrap_or("ecn"),
            rules: 1 + dice.below(3),
            is_tried: dice.once_in(2),
        }
    }

    /// Returns the text of the policy as a fleet stores it in etcd.
    pub fn fleet_text(&self) -> String {
        let canary = format!("[canary]\nhosts = [{HOST:?}]\nminutes = 1\nworse = {{ held = 2 }}\n");
        let canary = if self.is_tried { &canary } else { "" };
        self.text() + canary
    }

    /// Returns the text of the policy's tenants and rules.
    pub fn text(&self) -> String {
        let ports: Vec<String> = self.ports.iter().map(|name| format!("{name:?}")).collect();
        let ports = match ports.is_empty() {
            true => "\"nothing\"".to_owned(),
            false => ports.join(", "),
        };
        let mut text = format!("[[tenant]]\nname = \"t\"\nports = [{ports}]\n");
        for number in 0..self.rules {
            let remote = format!("10.{number}.0.0/16");
            text += &format!(
                "[[rule]]\ntenant = \"t\"\nlaw = {:?}\nremote = [{remote:?}]\n",
                self.law
            );
        }
        text
    }
}

/// This host's name.
pub const HOST: &str = "here";

/// Returns the text of the table `[agent]`. `at_most`: fraction of the ports that a policy may detach without
/// confirmation.
pub fn own(has_etcd: bool, at_most: &str) -> String {
    let etcd = "[agent.etcd]\nendpoints = [\"http://127.0.0.1:2379\"]\n";
    let own = format!("[agent]\nat_most_detached = {at_most}\nmetrics = \"none\"\n");
    format!("{own}{}", if has_etcd { etcd } else { "" })
}
