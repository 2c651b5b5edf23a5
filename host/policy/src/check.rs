//! Checks of rules against one another.

use std::collections::BTreeSet;

use uc_core::rule::{Match, RULES_MAX};
use uc_law::{Law, PortCoupling, Watch};

use crate::dupack::DupackKey;
use crate::effort::Effort;
use crate::fault::Faults;
use crate::file::PortTable;
use crate::hold::HoldKey;
use crate::pattern::Pattern;
use crate::policy::Policy;
use crate::rule::Rule;

/// Maximum number of a tenant's patterns that one message lists.
const NAMED_MAX: usize = 8;

/// Checks each rule against the others. `has_host`: the policy is in the host's own file, which
/// also has the settings of the start `watch`.
pub(crate) fn check(policy: &Policy, has_host: bool, effort: &Effort, faults: &mut Faults<'_>) {
    if faults.is_full() {
        return;
    }
    check_managed(policy, faults);
    // The meaning of a rule with a fault is unknown.
    let sound = policy.rules.iter().filter(|rule| !faults.touch(&key(rule)));
    let sound: Vec<&Rule> = sound.collect();
    for (at, rule) in sound.iter().enumerate() {
        let earlier: Vec<&Rule> = sound[..at]
            .iter()
            .copied()
            .filter(|other| other.meets_ports_of(rule, &policy.tenants, effort))
            .collect();
        if rule.number > 0 {
            check_ports(rule, policy, effort, faults);
            check_reached(rule, &earlier, policy, effort, faults);
        }
        check_agreement(rule, &earlier, effort, faults);
    }
    check_room(policy, effort, faults);
    if !policy.rules.iter().any(|rule| faults.touch(&key(rule))) {
        check_acts(policy, effort, faults);
    }
    if has_host {
        check_watch_host(policy, faults);
    }
}

fn key(rule: &Rule) -> String {
    match rule.number {
        0 => "defaults".to_owned(),
        number => format!("rule.{}", number - 1),
    }
}

/// Formats a reference to an earlier rule.
fn name(rule: &Rule) -> String {
    match rule.number {
        0 => "[defaults]".to_owned(),
        _ => format!("the rule in line {}", rule.line),
    }
}

/// Checks that the policy names some port.
fn check_managed(policy: &Policy, faults: &mut Faults<'_>) {
    let named = |rule: &Rule| rule.tenant.is_none() && !rule.ports.is_empty();
    let any = !policy.tenants.is_empty() || policy.rules.iter().any(named);
    if !any && policy.file.agent.etcd.is_none() && faults.is_empty() {
        let message = "names no port; add a [[tenant]] with its ports, or a [[rule]] with a port";
        faults.add("", message);
    }
}

/// Checks that a tenant's rule names ports of the tenant.
fn check_ports(rule: &Rule, policy: &Policy, effort: &Effort, faults: &mut Faults<'_>) {
    let Some(tenant) = rule.tenant.map(|at| &policy.tenants[at]) else {
        return;
    };
    for (i, pattern) in rule.ports.iter().enumerate() {
        // Where no effort is left, nothing is known.
        let meets = |owned: &Pattern| !effort.spend(owned.steps(pattern)) || owned.meets(pattern);
        if tenant.ports.iter().any(meets) || tenant.ports.is_empty() {
            continue;
        }
        let owned = tenant.ports.iter().take(NAMED_MAX);
        let owned: Vec<String> = owned.map(ToString::to_string).collect();
        let message = format!(
            "can never match: `{pattern}` is not a port of tenant `{}`, which has {}{}",
            tenant.name,
            owned.join(", "),
            match tenant.ports.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            }
        );
        let list = format!("{}.port.{i}", key(rule));
        let at = match faults.is_given(&list) {
            true => list,
            false => format!("{}.port", key(rule)),
        };
        faults.add(&at, message);
    }
}

/// Checks that some flow reaches this rule.
fn check_reached(
    rule: &Rule,
    earlier: &[&Rule],
    policy: &Policy,
    effort: &Effort,
    faults: &mut Faults<'_>,
) {
    let covering: Vec<&Rule> = earlier
        .iter()
        .copied()
        .filter(|other| other.covers_ports_of(rule, &policy.tenants, effort))
        .collect();
    let covers = |wide: &Match, narrow: &Match| effort.spend(1) && wide.covers(narrow);
    let takes = |matches: &Match| {
        covering
            .iter()
            .find(|other| other.matches.iter().any(|wide| covers(wide, matches)))
    };
    let takers: Option<Vec<&&Rule>> = rule.matches.iter().map(takes).collect();
    let Some(mut takers) = takers.filter(|takers| !takers.is_empty()) else {
        return;
    };
    takers.sort_by_key(|taker| taker.number);
    takers.dedup_by_key(|taker| taker.number);
    let takers: Vec<String> = takers.into_iter().map(|taker| name(taker)).collect();
    let verb = match takers.len() {
        1 => "takes",
        _ => "take",
    };
    let message = format!(
        "can never match: {} {verb} all of its flows; move this one above, or remove it",
        takers.join(" and ")
    );
    faults.add(&key(rule), message);
}

/// Checks that the rules of a port agree on what a port can have only once: the group whose window its flows share,
/// and the start.
fn check_agreement(rule: &Rule, earlier: &[&Rule], effort: &Effort, faults: &mut Faults<'_>) {
    // Rules after a rule for all flows are not reached on the ports of both.
    let both = earlier.iter().filter(|other| !other.takes_all_flows());
    let (mut coupled, mut started) = (false, false);
    for other in both {
        fn coupling(rule: &Rule) -> Option<&PortCoupling> {
            rule.treatment.coupling.as_ref()
        }
        let has = coupling(rule).map_or(0, |coupling| coupling.priorities.len());
        if !effort.spend(1 + has / 8) {
            return;
        }
        if let (Some(own), Some(before)) = (coupling(rule), coupling(other))
            && own != before
            && !coupled
        {
            coupled = true;
            let message = format!(
                "differs from that of {}, and a port has one: make them the same, or divide the \
                 ports between the rules",
                name(other)
            );
            faults.add(&format!("{}.coupling", key(rule)), message);
        }
        let divides = |rule: &Rule| (coupling(rule).is_some(), rule.treatment.share > 0);
        let mixed = matches!(
            (divides(rule), divides(other)),
            ((true, _), (_, true)) | ((_, true), (true, _))
        );
        if mixed && !coupled {
            coupled = true;
            let message = format!(
                "and {} apply to one port, but one has law coupled and the other `share`, and a \
                 port \
                 divides its windows in one way: change one of the rules, or give each rule its \
                 own ports",
                name(other)
            );
            faults.add(&key(rule), message);
        }
        if rule.treatment.watch != other.treatment.watch && !started {
            started = true;
            let message = format!(
                "differs from that of {} ({} here, {} there), and a port's flows all start the \
                 same way: say it in [defaults], or in one rule about all flows of the port",
                name(other),
                start(rule.treatment.watch.as_ref()),
                start(other.treatment.watch.as_ref())
            );
            faults.add(&format!("{}.start", key(rule)), message);
        }
    }
}

fn start(watch: Option<&Watch>) -> &'static str {
    match watch {
        None => "none",
        Some(watch) if watch.are_default() => "watch",
        Some(_) => "watch with parameters",
    }
}

/// Checks that every port's rules fit into the kernel's maps. Counts for each pattern of the file;
/// ports that two patterns match partly are counted when they are attached.
fn check_room(policy: &Policy, effort: &Effort, faults: &mut Faults<'_>) {
    let owned = policy.tenants.iter().enumerate();
    let owned = owned.flat_map(|(at, tenant)| tenant.ports.iter().map(move |p| (Some(at), p)));
    let named = policy.rules.iter().filter(|rule| rule.tenant.is_none());
    let named = named.flat_map(|rule| rule.ports.iter().map(|p| (None, p)));
    let mut told = BTreeSet::new();
    for (tenant, pattern) in owned.chain(named) {
        let mut needed = 0;
        for rule in policy
            .rules
            .iter()
            .filter(|rule| holds(rule, tenant, pattern, effort))
        {
            needed += rule.matches.len() * usize::from(is_written(rule));
            if needed <= RULES_MAX {
                continue;
            }
            if told.insert(rule.number) {
                let message = format!(
                    "is one too many for port `{pattern}`: with it the rules need more than the \
                     {RULES_MAX} places that a port has, one for each combination of prefixes and \
                     ranges; merge some"
                );
                faults.add(&key(rule), message);
            }
            break;
        }
    }
}

/// Returns whether the rule is about all ports of the pattern.
fn holds(rule: &Rule, tenant: Option<usize>, pattern: &Pattern, effort: &Effort) -> bool {
    let covers = |wide: &Pattern| effort.spend(wide.steps(pattern)) && wide.covers(pattern);
    (rule.tenant.is_none() || rule.tenant == tenant)
        && effort.spend(1)
        && (rule.ports.is_empty() || rule.ports.iter().any(covers))
}

/// Returns whether the rule needs an entry: flows that no rule matches pass, so a last rule `pass`
/// needs none.
pub(crate) fn is_written(rule: &Rule) -> bool {
    rule.number > 0 || rule.treatment.law != Law::PASS
}

/// Checks that the start `watch` has a key and peers.
fn check_watch_host(policy: &Policy, faults: &mut Faults<'_>) {
    let Some(rule) = policy
        .rules
        .iter()
        .find(|rule| rule.treatment.watch.is_some())
    else {
        return;
    };
    if policy.file.agent.watch.is_none() && policy.file.agent.etcd.is_none() {
        let message = "watch needs the fleet's key and the peers; add [agent.watch] with key_file \
                       and peers";
        faults.add(&format!("{}.start", key(rule)), message);
    }
}

/// Checks that some flow has a law that acts where `[defaults]` or a tenant asks for duplicate ACKs, or for data to
/// be kept.
fn check_acts(policy: &Policy, effort: &Effort, faults: &mut Faults<'_>) {
    type Asks = fn(&PortTable) -> bool;
    let dupack = |port: &PortTable| {
        let key = port.dupack.as_ref();
        key.and_then(DupackKey::resolve).is_some()
    };
    let buffer = |port: &PortTable| {
        let hold = port.hold.as_ref().and_then(HoldKey::resolve);
        hold.is_some_and(|hold| hold.rto_min.is_some())
    };
    let keys: [(&str, Asks, &str); 2] = [
        ("dupack", dupack, "is for flows"),
        ("hold", buffer, "keeps data of flows"),
    ];
    let acts = policy.rules.iter().any(|rule| rule.treatment.acts());
    for (name, asks, what) in keys {
        let message = format!(
            "{what} whose law acts, and each rule of these ports has law pass or observes; give them for example \
             law = \"ecn\", or leave it out"
        );
        if asks(&policy.file.defaults.port) && !acts {
            faults.add(&format!("defaults.{name}"), message.clone());
        }
        for (at, table) in policy.file.tenants.iter().enumerate() {
            if asks(&table.port) && !has_law_that_acts(policy, at, effort) {
                faults.add(&format!("tenant.{at}.{name}"), message.clone());
            }
        }
    }
}

/// Returns whether a rule of the tenant's ports has a law that acts.
fn has_law_that_acts(policy: &Policy, tenant: usize, effort: &Effort) -> bool {
    let owned = &policy.tenants[tenant].ports;
    // Where no effort is left, nothing is known.
    let meets = |named: &Pattern| {
        let mut owned = owned.iter();
        owned.any(|owned| !effort.spend(owned.steps(named)) || owned.meets(named))
    };
    let is_about = |rule: &&Rule| {
        rule.tenant.is_none_or(|of| of == tenant)
            && (rule.ports.is_empty() || rule.ports.iter().any(meets))
    };
    for rule in policy.rules.iter().filter(is_about) {
        if rule.treatment.acts() {
            return true;
        }
        if rule.ports.is_empty() && rule.takes_all_flows() {
            return false;
        }
    }
    false
}

/// Returns the coupling of a port with these rules: that of the first rule with law `coupled`; otherwise, if a rule
/// has a `share`, the group whose sum of windows the shares divide (`sum`: number of that group; `None`: the port's
/// own). Returns `None` if no rule has either.
pub(crate) fn coupling<'a>(
    rules: impl Iterator<Item = &'a Rule> + Clone,
    sum: Option<u32>,
) -> Option<PortCoupling> {
    let coupled = rules
        .clone()
        .find_map(|rule| rule.treatment.coupling.clone());
    let shares = || rules.clone().any(|rule| rule.treatment.share > 0);
    coupled.or_else(|| shares().then(|| PortCoupling::share(sum)))
}
