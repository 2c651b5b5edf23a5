//! The desired state of ports: the interfaces that the policy names, except those detached by an
//! operator.

use std::collections::BTreeMap;

use uc_policy::Policy;
use uc_port::PortPlan;

use crate::guests::Guests;
use crate::links::Link;
use crate::withdrawn::Withdrawn;

/// A port of this host that the policy names, with what the policy wants there.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Name of the port's interface.
    pub name: String,
    /// The name, of the interface or its guest, that the policy's pattern matched.
    pub matched: String,
    /// Name of the tenant that owns the port; `None`: the policy has the port without a tenant.
    pub tenant: Option<String>,
    /// Number of the policy's rules that apply to the port.
    pub rules: usize,
    /// Compiled rules that the port's programs shall have.
    pub plan: PortPlan,
    /// Settings of watched flow starts; `None`: not watched.
    pub start: Option<uc_watch::Settings>,
    /// Whether connections of the port's guest are split.
    pub split: bool,
    /// Whether other software drops what the port's guest sends from addresses that are not its own.
    pub filtered_addresses: bool,
    /// Settings for sending the port's guest duplicate ACKs; `None`: none are sent.
    pub dupack: Option<uc_policy::Dupack>,
    /// Settings for holding packets of the port's guest; `None`: none are held.
    pub hold: Option<uc_policy::Hold>,
    /// Whether an operator has detached the port: the agent must not attach it.
    pub withdrawn: bool,
}

/// Returns every interface that the policy names, with its settings, keyed by interface index.
pub fn desired(
    policy: &Policy,
    links: &[Link],
    guests: &Guests,
    withdrawn: &Withdrawn,
) -> BTreeMap<u32, Wanted> {
    let wanted = |link: &Link| {
        let names = guests.names(link);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let planned = policy.plan_for(&names)?;
        let wanted = Wanted {
            name: link.name.clone(),
            matched: planned.matched,
            tenant: planned.tenant.map(|tenant| tenant.name.clone()),
            rules: planned.rules.len(),
            plan: planned.port,
            start: planned.start,
            split: planned.settings.split,
            filtered_addresses: planned.settings.filtered_addresses,
            dupack: planned.dupack,
            hold: planned.hold,
            withdrawn: withdrawn.has(&link.name),
        };
        Some((link.ifindex, wanted))
    };
    links.iter().filter_map(wanted).collect()
}
