//! What the operator wants: which interfaces are ports, and their rules.

use std::collections::BTreeSet;

use uc_faults::Dice;

/// Names that interfaces have.
pub const NAMES: [&str; 6] = ["v1", "v2", "v3", "v4", "w1", "w2"];

/// A policy: its ports, and rules of one law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub ports: BTreeSet<String>,
    law: &'static str,
    rules: u64,
    /// Whether this host tries it first where it is a fleet's.
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

    /// Returns the policy as one that this host tries first.
    pub fn tried(mut self) -> Self {
        self.is_tried = true;
        self
    }

    /// Draws a policy, in most cases for most of the ports.
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

    /// Returns the policy as a fleet's text.
    pub fn fleet_text(&self) -> String {
        let canary = format!("[canary]\nhosts = [{HOST:?}]\nminutes = 1\nworse = {{ held = 2 }}\n");
        let canary = if self.is_tried { &canary } else { "" };
        self.text() + canary
    }

    /// Returns the policy as text.
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

/// Returns the agent's own settings, which precede a policy in its file; `at_most`: part of the ports that
/// a policy may detach unconfirmed.
pub fn own(has_etcd: bool, at_most: &str) -> String {
    let etcd = "[agent.etcd]\nendpoints = [\"http://127.0.0.1:2379\"]\n";
    let own = format!("[agent]\nat_most_detached = {at_most}\nmetrics = \"none\"\n");
    format!("{own}{}", if has_etcd { etcd } else { "" })
}
