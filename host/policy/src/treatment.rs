//! The treatment of a rule's flows: the rule's own keys, else those of `[defaults]`, else the
//! built-in defaults.

use std::collections::BTreeMap;

use uc_core::Policy as FlowPolicy;
use uc_law::{
    CouplingRules, Law, Parameters, PortCoupling, Profile, StartSettings, Table, Value, Watch, keys,
};

use crate::effort::PRIORITIES_MAX;
use crate::fault::Faults;
use crate::file::{CouplingTable, Start, TreatmentTable};
use crate::number::in_range;
use crate::tenant::PortSettings;

/// Default number of SYNs of a flow that request ECN (RFC 3168 §6.1.1.1).
pub const DEFAULT_ECN_SYNS: u8 = 2;

/// The treatment of flows, with defaults applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Treatment {
    /// Congestion control law that the network sees.
    pub law: Law,
    /// TCP sender that the law's shadow imitates.
    pub profile: Profile,
    /// Parameters of the law.
    pub parameters: Parameters,
    /// Number of SYNs that request ECN; 255: all.
    pub ecn_syns: u8,
    /// Weight of each flow in its port's sum of windows; 0: the flow takes no part in the sum.
    pub share: u8,
    /// Coupling of law `coupled`; `None` for any other law. It has neither the port's weight nor the tenant: group
    /// [`PortCoupling::TENANT`] stands for that of the port's tenant.
    pub coupling: Option<PortCoupling>,
    /// Parameters of the start `watch`; `None` if flows start without it.
    pub watch: Option<Watch>,
}

impl Treatment {
    /// Returns the policy for a port's programs.
    pub fn policy(&self) -> FlowPolicy {
        FlowPolicy {
            ecn_syns: self.ecn_syns,
            ..uc_law::policy(self.law, self.profile, &self.parameters)
        }
    }

    /// Returns whether the law changes what passes: it is not `pass`, and does not only observe.
    pub fn acts(&self) -> bool {
        self.law != Law::PASS && !self.parameters.has(keys::OBSERVE)
    }

    /// Returns the policy for the programs of a port. A law that acts gets the parameter `strict` if the port is
    /// strict, and `no_sack` and `no_timestamps` if the host sends the port's guests duplicate ACKs.
    pub fn policy_of(&self, port: &PortSettings) -> FlowPolicy {
        let mut policy = self.policy();
        let dupack = port.dupack.is_some();
        for (key, is_implied) in [
            (keys::STRICT, port.strict),
            (keys::NO_SACK, dupack),
            (keys::NO_TIMESTAMPS, dupack),
        ] {
            if let Some(row) = FlowPolicy::row(key).filter(|_| is_implied && self.acts()) {
                row.set(&mut policy, 1);
            }
        }
        policy
    }

    /// Returns the start settings for a watched port; `None` if flows start without `watch`.
    pub fn start(&self) -> Option<StartSettings> {
        let watch = self.watch.as_ref()?;
        let usual = StartSettings::default();
        Some(StartSettings {
            policy: uc_law::watch_policy(watch, &usual.policy),
            ..usual
        })
    }
}

impl TreatmentTable {
    /// Returns the parameters. The key `legacy_only`, if given, sets the parameter `guest_ecn`.
    fn all_parameters(&self) -> Parameters {
        let parameters = self.parameters.clone();
        let Some((only, row)) = self.legacy_only.zip(FlowPolicy::row(keys::GUEST_ECN)) else {
            return parameters;
        };
        let word = if only { "pass" } else { "translate" };
        let by_name = Value::word(row, word);
        by_name.map_or(parameters.clone(), |value| {
            parameters.choose(row.key, value)
        })
    }

    /// Resolves a rule's table under `key`, with `defaults` for absent keys.
    pub(crate) fn resolve(
        &self,
        key: &str,
        defaults: &TreatmentTable,
        faults: &mut Faults<'_>,
    ) -> Treatment {
        let law = self.law.or(defaults.law).unwrap_or(Law::PASS);
        // Without a readable law, the keys that belong to it are unknown.
        let known = self.law.is_some() || !faults.is_given(&format!("{key}.law"));
        if known {
            self.check_law(key, law, defaults, faults);
        }
        let share = in_range(&format!("{key}.share"), self.share, 1..=255, faults);
        let share = share.or(defaults
            .share
            .filter(|_| law != Law::PASS && law != Law::COUPLED));
        let syns = in_range(&format!("{key}.ecn_syns"), self.ecn_syns, 0..=255, faults);
        let usual_syns = i64::from(DEFAULT_ECN_SYNS);
        Treatment {
            law,
            profile: self.profile.or(defaults.profile).unwrap_or_default(),
            parameters: self.merge(law, defaults),
            ecn_syns: syns.or(defaults.ecn_syns).unwrap_or(usual_syns) as u8,
            share: share.unwrap_or(0) as u8,
            coupling: self.couple(law, defaults),
            watch: self.watch(key, defaults, faults),
        }
    }

    /// Checks that the keys belong to the law.
    fn check_law(&self, key: &str, law: Law, defaults: &TreatmentTable, faults: &mut Faults<'_>) {
        let idle = [
            ("profile", self.profile.is_some()),
            ("legacy_only", self.legacy_only.is_some()),
            ("ecn_syns", self.ecn_syns.is_some()),
            ("share", self.share.is_some()),
        ];
        for (name, _) in idle
            .iter()
            .filter(|(_, is_set)| *is_set && law == Law::PASS)
        {
            let message =
                "says nothing under law pass; add for example law = \"ecn\", or leave it out";
            faults.add(&format!("{key}.{name}"), message);
        }
        if self.share.is_some() && law == Law::COUPLED {
            let message = "divides the windows that another law makes; give law coupled's flows a \
                           coupling.priority, or leave it out";
            faults.add(&format!("{key}.share"), message);
        }
        if self.legacy_only.is_some() && self.parameters.has(keys::GUEST_ECN) {
            let message =
                "sets the same as parameters.guest_ecn; remove legacy_only or parameters.guest_ecn";
            faults.add(&format!("{key}.legacy_only"), message);
        }
        let misplaced = self.parameters.misplaced(Some(law));
        // Faults of the defaults are reported there, once.
        let theirs = defaults.parameters.senseless(None);
        let senseless = self.merge(law, defaults).senseless(Some(law)).into_iter();
        let senseless = senseless.filter(|fault| !theirs.contains(fault));
        for (name, message) in misplaced.into_iter().chain(senseless) {
            let name = match name {
                keys::GUEST_ECN if self.legacy_only.is_some() => "legacy_only".to_owned(),
                name => format!("parameters.{name}"),
            };
            let key = format!("{key}.{name}");
            // An unreadable target isn't missing.
            if !faults.touch(&key) {
                faults.add(&key, message);
            }
        }
        let Some(coupling) = &self.coupling else {
            return;
        };
        let key = format!("{key}.coupling");
        if law != Law::COUPLED {
            let message = "is of law coupled; add law = \"coupled\", or leave it out";
            faults.add(&key, message);
        }
        coupling.check(&key, faults);
    }

    /// Merges the parameters of the rule with those of the defaults that the law has.
    fn merge(&self, law: Law, defaults: &TreatmentTable) -> Parameters {
        let own = self.all_parameters();
        let mut others = defaults.all_parameters().under(law);
        // A rule that only observes has no use for what the defaults would have written.
        if own.has(keys::OBSERVE) || others.has(keys::OBSERVE) {
            for key in keys::WRITING {
                others.remove(key);
            }
        }
        own.or(others)
    }

    fn couple(&self, law: Law, defaults: &TreatmentTable) -> Option<PortCoupling> {
        if law != Law::COUPLED {
            return None;
        }
        let table = self.coupling.as_ref().or(defaults.coupling.as_ref());
        let usual = CouplingTable::default();
        Some(table.unwrap_or(&usual).resolve())
    }

    fn watch(
        &self,
        key: &str,
        defaults: &TreatmentTable,
        faults: &mut Faults<'_>,
    ) -> Option<Watch> {
        let start = self.start.or(defaults.start).unwrap_or_default();
        let key = format!("{key}.watch");
        if start != Start::Watch && !self.watch.are_default() {
            let message =
                "has an effect only with the start `watch`; add start = \"watch\", or leave it out";
            faults.add(&key, message);
        }
        for (name, message) in self.watch.faults() {
            faults.add(&format!("{key}.{name}"), message);
        }
        let watch = match self.watch.are_default() {
            true => defaults.watch.clone(),
            false => self.watch.clone(),
        };
        Some(watch).filter(|_| start == Start::Watch)
    }
}

impl CouplingTable {
    /// Checks that each number under `key` is in range.
    pub(crate) fn check(&self, key: &str, faults: &mut Faults<'_>) {
        let mut check = |name: &str, value, first, last| {
            in_range(&format!("{key}.{name}"), value, first..=last, faults);
        };
        check("group", self.group, 0, i64::from(i32::MAX));
        check("prefix4", self.prefix4, 0, 32);
        check("prefix6", self.prefix6, 0, 128);
        check("priority", self.priority, 1, 255);
        check("burst", self.burst, 1, 65_535);
        if self.priorities.len() > PRIORITIES_MAX {
            let count = self.priorities.len();
            let message = format!("{count} priorities; a table has at most {PRIORITIES_MAX}");
            faults.add(&format!("{key}.priorities"), message);
            return;
        }
        for (port, priority) in &self.priorities {
            let key = format!("{key}.priorities.{port}");
            if !port.parse::<u16>().is_ok_and(|port| port > 0) {
                let message = format!("`{port}` is not a TCP port; give 1 to 65535");
                faults.add(&key, message);
            }
            in_range(&key, Some(*priority), 1..=255, faults);
        }
        if let Some(fraction) = self.aggressiveness
            && !(0.0..=1.0).contains(&fraction)
        {
            let message = format!("is {fraction}; give 0 to 1");
            faults.add(&format!("{key}.aggressiveness"), message);
        }
    }

    /// Returns the coupling, after [`Self::check`]. Without a group number, the group is that of the port's tenant.
    fn resolve(&self) -> PortCoupling {
        let usual = PortCoupling::default();
        let rules = CouplingRules {
            shares: self.shares.unwrap_or_default(),
            aggressiveness: self.aggressiveness.unwrap_or_default(),
            size: self.size.unwrap_or_default(),
            burst: self.burst.map(|burst| burst as u16),
            total: None,
        };
        // By number and each once, as the programs compare them: "443" comes before "80" in the
        // file's order, and "080" is the same port.
        let priorities: BTreeMap<u16, u8> = self
            .priorities
            .iter()
            .take(PRIORITIES_MAX)
            .filter_map(|(port, priority)| Some((port.parse().ok()?, *priority as u8)))
            .collect();
        PortCoupling {
            group: self
                .group
                .map_or(PortCoupling::TENANT, |group| group as u32),
            prefix4: self.prefix4.map_or(usual.prefix4, |bits| bits as u8),
            prefix6: self.prefix6.map_or(usual.prefix6, |bits| bits as u8),
            priority: self.priority.map_or(usual.priority, |part| part as u8),
            priorities: priorities.into_iter().collect(),
            rules: uc_law::group_policy(&rules, false),
            ..usual
        }
    }
}
