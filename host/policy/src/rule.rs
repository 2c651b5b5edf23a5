//! A rule with defaults applied: the selection of ports and flows, and their treatment.

use uc_core::rule::{Match, Prefix, RULES_MAX, Rule as KernelRule};

use crate::dscp::Dscp;
use crate::effort::Effort;
use crate::fault::Faults;
use crate::file::SelectionTable;
use crate::pattern::Pattern;
use crate::range::PortRange;
use crate::tenant::{PortSettings, Tenant};
use crate::treatment::Treatment;

/// A rule for flows of some ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Number of the rule in the file, from 1; 0: the rule of `[defaults]` for all other flows.
    pub number: usize,
    /// Line of the rule in the file.
    pub line: usize,
    /// Index of the tenant whose ports match; `None`: ports of any tenant and of none.
    pub tenant: Option<usize>,
    /// Patterns of the ports that match; empty: all ports.
    pub ports: Vec<Pattern>,
    /// Conditions; a flow matches the rule if it meets any of them.
    pub matches: Vec<Match>,
    /// How flows that match the rule are treated.
    pub treatment: Treatment,
}

impl Rule {
    /// Returns whether the rule applies to a port with these names; `tenant`: index of its tenant.
    pub fn is_of(&self, tenant: Option<usize>, names: &[&str]) -> bool {
        let named = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name));
        (self.tenant.is_none() || self.tenant == tenant)
            && (self.ports.is_empty() || self.ports.iter().any(named))
    }

    /// Returns the rules for the programs of a port with these settings.
    pub fn kernel_rules(&self, port: &PortSettings) -> impl Iterator<Item = KernelRule> + use<'_> {
        let policy = self.treatment.policy_of(port);
        let share = self.treatment.share;
        // A policy has fewer rules.
        let number = u16::try_from(self.number).unwrap_or(u16::MAX);
        self.matches.iter().map(move |matches| KernelRule {
            matches: *matches,
            policy,
            share,
            number,
        })
    }

    /// Returns whether the rule matches every flow of its ports.
    pub fn takes_all_flows(&self) -> bool {
        self.matches.contains(&Match::ALL)
    }

    /// Returns whether this rule applies to every port to which the other applies; false where this is hard to decide.
    pub(crate) fn covers_ports_of(
        &self,
        other: &Rule,
        tenants: &[Tenant],
        effort: &Effort,
    ) -> bool {
        let covers = |wide: &Pattern, narrow: &Pattern| {
            effort.spend(wide.steps(narrow)) && wide.covers(narrow)
        };
        let all = |wide: &[Pattern], narrow: &[Pattern]| {
            !narrow.is_empty()
                && narrow
                    .iter()
                    .all(|narrow| wide.iter().any(|wide| covers(wide, narrow)))
        };
        let of_tenant = |rule: &Rule| rule.tenant.map_or(&[][..], |at| &tenants[at].ports);
        let (named, owned) = (&other.ports[..], of_tenant(other));
        let covered = |wide: &[Pattern]| all(wide, named) || all(wide, owned);
        let tenants_do = self.tenant.is_none()
            || self.tenant == other.tenant
            || (other.tenant.is_none() && covered(of_tenant(self)));
        tenants_do && (self.ports.is_empty() || covered(&self.ports))
    }

    /// Returns whether there may be a port to which both rules apply.
    pub(crate) fn meets_ports_of(&self, other: &Rule, tenants: &[Tenant], effort: &Effort) -> bool {
        let meets = |a: &Pattern, b: &Pattern| effort.spend(a.steps(b)) && a.meets(b);
        let meet = |a: &[Pattern], b: &[Pattern]| {
            a.is_empty() || b.is_empty() || a.iter().any(|a| b.iter().any(|b| meets(a, b)))
        };
        let of_tenant = |rule: &Rule| rule.tenant.map_or(&[][..], |at| &tenants[at].ports);
        let foreign = |a: &Rule, b: &Rule| {
            a.tenant.is_some() && b.tenant.is_some_and(|b| a.tenant != Some(b))
        };
        !foreign(self, other)
            && effort.spend(1)
            && meet(&self.ports, &other.ports)
            && meet(of_tenant(self), &other.ports)
            && meet(&self.ports, of_tenant(other))
    }
}

impl SelectionTable {
    /// Resolves the ports and the flows under `key`.
    pub(crate) fn resolve(&self, key: &str, faults: &mut Faults<'_>) -> (Vec<Pattern>, Vec<Match>) {
        let ports = self
            .port
            .as_ref()
            .map(|ports| ports.read(&format!("{key}.port"), faults));
        (ports.unwrap_or_default(), self.matches(key, faults))
    }

    fn matches(&self, key: &str, faults: &mut Faults<'_>) -> Vec<Match> {
        let mut prefixes = |name: &str, list: &Option<crate::list::List<Prefix>>| match list {
            None => vec![Prefix::ANY],
            Some(list) => list.read(&format!("{key}.{name}"), faults),
        };
        let (local, remote) = (
            prefixes("local", &self.local),
            prefixes("remote", &self.remote),
        );
        let mut ranges = |name: &str, list: &Option<crate::list::List<PortRange>>| match list {
            None => vec![PortRange::ALL],
            Some(list) => PortRange::merged(list.read(&format!("{key}.{name}"), faults)),
        };
        let local_ports = ranges("local_port", &self.local_port);
        let remote_ports = ranges("remote_port", &self.remote_port);
        let dscps = self
            .dscp
            .as_ref()
            .map(|list| list.read(&format!("{key}.dscp"), faults));
        let dscps = Dscp::mask(&dscps.unwrap_or_default());

        let pairs = pairs_of(&local, &remote);
        if pairs == 0 && !local.is_empty() && !remote.is_empty() {
            let message = "can never match: local and remote are of different families; give both \
                           in IPv4 or both in IPv6";
            faults.add(&format!("{key}.remote"), message);
        }
        let needed = [pairs, local_ports.len(), remote_ports.len()]
            .into_iter()
            .fold(1, usize::saturating_mul);
        if needed > RULES_MAX {
            let message = format!(
                "its lists make {needed} combinations of prefixes and ports, and a port has room \
                 for {RULES_MAX}; shorten them"
            );
            faults.add(key, message);
            return Vec::new();
        }
        let mut matches = Vec::with_capacity(needed);
        let pairs = local
            .iter()
            .filter(|_| pairs > 0)
            .flat_map(|local| remote.iter().map(|remote| (*local, *remote)))
            .filter(|(local, remote)| can_talk(*local, *remote));
        for (local, remote) in pairs {
            for own in &local_ports {
                for other in &remote_ports {
                    matches.push(Match {
                        local,
                        remote,
                        local_ports: (own.first, own.last),
                        remote_ports: (other.first, other.last),
                        dscps,
                    });
                }
            }
        }
        matches
    }
}

/// Returns whether both prefixes have addresses of one family.
fn can_talk(local: Prefix, remote: Prefix) -> bool {
    local == Prefix::ANY || remote == Prefix::ANY || local.is_ipv4() == remote.is_ipv4()
}

/// Returns the number of pairs of a local and a remote prefix of one family. It does not build the pairs, because the
/// lists may be long.
fn pairs_of(local: &[Prefix], remote: &[Prefix]) -> usize {
    // Prefixes of any family, of IPv4, of IPv6.
    let count = |list: &[Prefix]| {
        let any = list.iter().filter(|one| **one == Prefix::ANY).count();
        let ipv4 = list.iter().filter(|one| one.is_ipv4()).count();
        (any, ipv4, list.len() - any - ipv4)
    };
    let (local, remote) = (count(local), count(remote));
    let with_any = local.0 * (remote.0 + remote.1 + remote.2) + remote.0 * (local.1 + local.2);
    with_any + local.1 * remote.1 + local.2 * remote.2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_pairs_are_those_of_one_family() {
        let all = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "fd00::/8",
            "fd01::/16",
            "fd02::/16",
        ];
        let mut all: Vec<Prefix> = all.iter().map(|text| text.parse().unwrap()).collect();
        all.push(Prefix::ANY);
        let subset = |bits: usize| -> Vec<Prefix> {
            let chosen = all.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            chosen.map(|(_, prefix)| *prefix).collect()
        };
        for bits in 0..1 << (2 * all.len()) {
            let (local, remote) = (subset(bits), subset(bits >> all.len()));
            let pairs = local
                .iter()
                .flat_map(|one| remote.iter().map(move |other| (one, other)));
            let talking = pairs
                .filter(|(one, other)| can_talk(**one, **other))
                .count();
            assert_eq!(pairs_of(&local, &remote), talking, "{local:?} {remote:?}");
        }
    }
}
