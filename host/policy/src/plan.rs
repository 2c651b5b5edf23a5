//! The policy's plan for one port.

use uc_law::{PortCoupling, PortPlan, StartSettings};

use crate::check::{coupling, is_written};
use crate::dupack::Dupack;
use crate::file::{Order, SumOf};
use crate::hold::Hold;
use crate::policy::Policy;
use crate::rule::Rule;
use crate::tenant::{PortSettings, Tenant};

/// The policy's settings for one port.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The port's name that the policy matched.
    pub matched: String,
    /// Tenant of the port, if it has one.
    pub tenant: Option<&'a Tenant>,
    /// Settings of the port as a whole.
    pub settings: PortSettings,
    /// Rules of the port in order, up to the first that matches every flow.
    pub rules: Vec<&'a Rule>,
    /// When the host sends the port's guest duplicate ACKs; `None`: never. It is `None`, too, if no rule's law acts
    /// ([`Treatment::acts`](crate::Treatment::acts)).
    pub dupack: Option<Dupack>,
    /// Packets of the port's guest that the host holds; `None`: none. Data is kept only if a rule's law acts
    /// ([`Treatment::acts`](crate::Treatment::acts)).
    pub hold: Option<Hold>,
    /// Start settings of the port's flows; `None`: start law `none`.
    pub start: Option<StartSettings>,
    /// Compiled rules that the port's programs shall have.
    pub port: PortPlan,
    /// Number ([`Rule::number`]) of the file's rule that each rule of `port` comes from.
    pub origins: Vec<usize>,
}

impl Policy {
    /// Returns the plan for the port with these names: its interface's first, then its
    /// alternatives. `None`: the policy does not contain the port.
    pub fn plan_for(&self, names: &[&str]) -> Option<Planned<'_>> {
        let (matched, tenant) = self.find(names)?;
        let mut rules: Vec<&Rule> = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.is_of(tenant, names)) {
            rules.push(rule);
            if rule.takes_all_flows() {
                break;
            }
        }
        let settings = tenant.map_or(self.port, |at| self.tenants[at].settings);
        let written = rules.iter().copied().filter(|rule| is_written(rule));
        let tenant = tenant.map(|at| &self.tenants[at]);
        let sum = match (settings.sum, tenant) {
            (SumOf::Tenant, Some(tenant)) => Some(tenant.number & !PortCoupling::OWN),
            _ => None,
        };
        let number = tenant.map_or(0, |tenant| tenant.number);
        let coupling = coupling(written.clone(), sum).map(|coupling| PortCoupling {
            group: match coupling.group {
                PortCoupling::TENANT => PortCoupling::of_tenant(number),
                group => group,
            },
            weight: settings.weight,
            ..coupling
        });
        let acts = rules.iter().any(|rule| rule.treatment.acts());
        let hold = settings.hold.and_then(|hold| match acts {
            true => Some(hold),
            false => hold.without_law(),
        });
        Some(Planned {
            matched: matched.to_owned(),
            tenant,
            settings,
            dupack: settings.dupack.filter(|_| acts),
            hold,
            start: rules.first().and_then(|rule| rule.treatment.start()),
            port: PortPlan {
                rules: written
                    .clone()
                    .flat_map(|rule| rule.kernel_rules(&settings))
                    .collect(),
                coupling,
                flows_max: settings.flows_max,
                tenant: number,
                after_others: settings.order == Order::After,
            },
            origins: written
                .flat_map(|rule| rule.matches.iter().map(|_| rule.number))
                .collect(),
            rules,
        })
    }

    /// Returns the first of the names that a tenant's pattern matches, with the tenant's index. Otherwise returns the
    /// first name that a rule without tenant contains, with `None`. Returns `None` if the policy contains none of the
    /// names.
    fn find<'n>(&self, names: &[&'n str]) -> Option<(&'n str, Option<usize>)> {
        for name in names {
            let owner = self
                .tenants
                .iter()
                .position(|tenant| tenant.ports.iter().any(|pattern| pattern.matches(name)));
            if owner.is_some() {
                return Some((name, owner));
            }
        }
        let named = |name: &str| {
            self.rules.iter().any(|rule| {
                rule.tenant.is_none() && rule.ports.iter().any(|pattern| pattern.matches(name))
            })
        };
        let name = names.iter().find(|name| named(name))?;
        Some((name, None))
    }
}
