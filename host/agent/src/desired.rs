//! What is desired: by the policy, of the interfaces that there are, but for those that an operator
//! wants left alone.

use std::collections::BTreeMap;

use uc_policy::Policy;
use uc_port::PortPlan;

use crate::guests::Guests;
use crate::hold::Hold;
use crate::links::Link;

/// A port that the policy names.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The interface's name.
    pub name: String,
    /// The name that the policy's pattern matched.
    pub matched: String,
    /// Whose it is.
    pub tenant: Option<String>,
    /// How many rules of the policy are about it.
    pub rules: usize,
    /// What the programs on it are told.
    pub plan: PortPlan,
    /// How its flows start, where that is watched.
    pub start: Option<uc_watch::Settings>,
    /// Whether an operator wants it left alone.
    pub held: bool,
}

/// Every interface that the policy names, and how.
pub fn desired(
    policy: &Policy,
    links: &[Link],
    guests: &Guests,
    hold: &Hold,
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
            held: hold.holds(&link.name),
        };
        Some((link.ifindex, wanted))
    };
    links.iter().filter_map(wanted).collect()
}
