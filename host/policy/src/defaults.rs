//! `[defaults]`: settings that rules inherit, and the treatment of flows that no rule matches.

use uc_core::rule::Match;
use uc_law::Law;

use crate::fault::Faults;
use crate::file::{PolicyFile, Start, TreatmentTable};
use crate::number::in_range;
use crate::rule::Rule;

/// Checks that each default is in range and used by some rule.
pub(crate) fn check(file: &PolicyFile, faults: &mut Faults<'_>) {
    let table = &file.defaults.treatment;
    let mut laws = vec![table.law.unwrap_or(Law::Pass)];
    laws.extend(file.rules.iter().filter_map(|rule| rule.treatment.law));
    let used = |owner: Option<Law>| match owner {
        Some(owner) => laws.contains(&owner),
        None => laws.iter().any(|law| *law != Law::Pass),
    };
    let idle = |law: &str| {
        format!("is of law {law}, and neither [defaults] nor a rule has it; leave it out")
    };
    for (name, is_set, owner) in table.parameters.owners() {
        if is_set && !used(owner) {
            let law = owner.map_or("ecn or another", Law::name);
            faults.add(&format!("defaults.parameters.{name}"), idle(law));
        }
    }
    for (name, message) in table.parameters.senseless(None) {
        faults.add(&format!("defaults.parameters.{name}"), message);
    }
    if table.legacy_only.is_some() && table.parameters.guest_ecn.is_some() {
        let message = "says the same as parameters.guest_ecn; leave out one of them";
        faults.add("defaults.legacy_only", message);
    }
    if let Some(coupling) = &table.coupling {
        if !used(Some(Law::Coupled)) {
            faults.add("defaults.coupling", idle(Law::Coupled.name()));
        }
        coupling.check("defaults.coupling", faults);
    }
    in_range("defaults.share", table.share, 1..=255, faults);
    in_range("defaults.ecn_syns", table.ecn_syns, 0..=255, faults);
    check_start(file, faults);
}

fn check_start(file: &PolicyFile, faults: &mut Faults<'_>) {
    let table = &file.defaults.treatment;
    let starts = |table: &TreatmentTable| table.start == Some(Start::Watch);
    let used = starts(table) || file.rules.iter().any(|rule| starts(&rule.treatment));
    if !table.watch.are_default() && !used {
        let message = "is of the start watch, and neither [defaults] nor a rule has it; add start = \
                       \"watch\", or leave it out";
        faults.add("defaults.watch", message);
    }
    for (name, message) in table.watch.faults() {
        faults.add(&format!("defaults.watch.{name}"), message);
    }
}

/// Returns the last rule: of every port, about every flow. What was checked above is not reported
/// again.
pub(crate) fn rule(table: &TreatmentTable, faults: &mut Faults<'_>) -> Rule {
    let law = table.law.unwrap_or(Law::Pass);
    // Defaults for rules are not this rule's own where its law has no use for them.
    let own = TreatmentTable {
        law: Some(law),
        ..TreatmentTable::default()
    };
    Rule {
        number: 0,
        line: faults.line("defaults"),
        tenant: None,
        ports: Vec::new(),
        matches: vec![Match::ALL],
        treatment: own.resolve("defaults", table, faults),
    }
}
