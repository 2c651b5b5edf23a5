//! Laws and guards of ports' rules, and the assumption that guards depend on.

use serde::Serialize;
use uc_core::{Law, consts};
use uc_port::PortPlan;

/// A law that the rules of a port use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LawLine {
    /// Name of the law.
    pub law: String,
    /// Whether the law's windows are computed but never written.
    pub observed: bool,
}

/// Lists the laws of a port's compiled rules, each once, in the order of the rules.
pub fn laws_of(plan: &PortPlan) -> Vec<LawLine> {
    let mut laws = Vec::new();
    for rule in &plan.rules {
        let line = LawLine {
            law: Law::of(&rule.policy).name().to_owned(),
            observed: u32::from(rule.policy.modes) & consts::MODE_OBSERVE != 0,
        };
        if !laws.contains(&line) {
            laws.push(line);
        }
    }
    laws
}

/// Returns whether one of a port's compiled rules has a guard; strict mode implies a guard.
pub fn is_guarded(plan: &PortPlan) -> bool {
    plan.rules
        .iter()
        .any(|rule| rule.policy.guard_segments > 0 || uc_core::is_strict(&rule.policy))
}

/// Returns a warning for these ports with guards: another guest can defeat a guard by sending from this guest's
/// address, unless other software drops such packets. Empty if there are no ports.
pub fn address_caution(ports: &[&str]) -> Vec<String> {
    let text = (!ports.is_empty()).then(|| {
        format!(
            "the guards of {} trust ACKs by their addresses, and no filter of addresses is stated: a guest \
             that can send from its peers' addresses is not held; drop such packets \
             (docs/threat-model.md#address-filters), then set `filtered_addresses = true` in the policy",
            ports.join(", ")
        )
    });
    text.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_core::Policy;

    #[test]
    fn plans_with_a_guard_or_strict_mode_are_guarded() {
        let guarded = |guard_segments, modes: u32| {
            is_guarded(&PortPlan::from(Policy {
                guard_segments,
                modes: modes as u8,
                ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
            }))
        };
        assert!(!guarded(0, 0) && !guarded(0, consts::MODE_OBSERVE));
        assert!(guarded(1, 0) && guarded(0, consts::MODE_STRICT));
    }

    #[test]
    fn a_caution_names_the_ports_and_the_remedy() {
        assert_eq!(address_caution(&[]), [] as [&str; 0]);
        let text = &address_caution(&["vnet3", "vnet4"])[0];
        let parts = [
            "guards of vnet3, vnet4 trust",
            "`filtered_addresses = true`",
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
