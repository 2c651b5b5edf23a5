//! `[canary]`: hosts of a fleet that try a policy first.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use uc_core::Reason;
use uc_words::wording::suggest;

use crate::fault::Faults;
use crate::number::in_range;
use crate::required::needs;

/// Default number of minutes for which a host tries a policy.
const DEFAULT_MINUTES: u32 = 10;
/// Maximum length of a trial in minutes: one day.
const MINUTES_MAX: i64 = 24 * 60;
/// Maximum number of hosts that try a policy, and of reasons that they compare.
const MEMBERS_MAX: usize = 16;
/// Maximum length of the name of a canary host, in bytes.
const HOST_MAX_BYTES: usize = 253;
/// Range of the factors by which a reason's share of all packets may rise.
const FACTORS: std::ops::RangeInclusive<f64> = 1.0..=1000.0;

/// `[canary]`: hosts that try the policy before all others follow it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = |schema: &mut Schema| needs(schema, &["hosts", "worse"]))]
pub struct CanaryTable {
    /// Names of the hosts that try the policy first, 1 to 16, each as `uname -n` prints it.
    #[schemars(length(min = 1, max = 16))]
    pub hosts: Vec<String>,
    /// Minutes for which each of these hosts tries the policy, 1 to 1440. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub minutes: Option<i64>,
    /// What makes the policy worse than the one before it: reasons of packets (`uc_packets_total`),
    /// each with the factor, 1 to 1000, by which its share of all packets may rise:
    /// `{ no_handshake = 2 }`.
    #[schemars(length(min = 1, max = 16))]
    pub worse: BTreeMap<String, f64>,
}

/// Hosts of a fleet that try a policy before all other hosts follow it.
#[derive(Clone, Debug, PartialEq)]
pub struct Canary {
    /// Names of the hosts that try a new policy first, as `uname -n` prints them.
    pub hosts: Vec<String>,
    /// Minutes for which each of these hosts tries the policy.
    pub minutes: u32,
    /// Reasons of packets, and the factor by which the share of each may rise.
    pub worse: Vec<(Reason, f64)>,
}

impl CanaryTable {
    pub(crate) fn resolve(&self, faults: &mut Faults<'_>) -> Canary {
        check_hosts(&self.hosts, faults);
        let minutes = in_range("canary.minutes", self.minutes, 1..=MINUTES_MAX, faults);
        Canary {
            hosts: self.hosts.clone(),
            minutes: minutes.map_or(DEFAULT_MINUTES, |minutes| minutes as u32),
            worse: reasons(&self.worse, faults),
        }
    }
}

fn check_hosts(hosts: &[String], faults: &mut Faults<'_>) {
    if hosts.is_empty() {
        faults.add("canary.hosts", "no hosts; name at least one");
    }
    if hosts.len() > MEMBERS_MAX {
        let message = format!("{} hosts; name at most {MEMBERS_MAX}", hosts.len());
        faults.add("canary.hosts", message);
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, host) in hosts.iter().enumerate() {
        let key = format!("canary.hosts.{i}");
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if host.is_empty() || host.len() > HOST_MAX_BYTES || !host.chars().all(is_allowed) {
            let message = format!(
                "`{host}` is not the name of a host; write what `uname -n` prints on that host"
            );
            faults.add(&key, message);
        } else if !seen.insert(host) {
            faults.add(&key, format!("`{host}` is named twice; remove one"));
        }
    }
}

/// Returns the reasons that are valid, each with its factor.
fn reasons(worse: &BTreeMap<String, f64>, faults: &mut Faults<'_>) -> Vec<(Reason, f64)> {
    if worse.is_empty() {
        let message = "nothing to compare; name a reason, as worse = { no_handshake = 2 }";
        faults.add("canary.worse", message);
    }
    if worse.len() > MEMBERS_MAX {
        let message = format!("{} reasons; name at most {MEMBERS_MAX}", worse.len());
        faults.add("canary.worse", message);
        return Vec::new();
    }
    let known: Vec<&str> = Reason::all().map(Reason::label).collect();
    let mut found = Vec::new();
    for (label, &factor) in worse {
        let key = format!("canary.worse.{label}");
        let reason = Reason::all().find(|reason| reason.label() == label);
        match reason {
            None => {
                let mend = suggest(label, &known);
                faults.add(
                    &key,
                    format!("no reason of packets is called `{label}`; {mend}"),
                );
            }
            Some(Reason::TRANSLATED) => {
                faults.add(&key, "more such packets are not worse; name another reason");
            }
            Some(_) if !FACTORS.contains(&factor) => {
                faults.add(&key, format!("is {factor}; give 1 to 1000"));
            }
            Some(reason) => found.push((reason, factor)),
        }
    }
    found
}
