//! `[defaults]`: settings that rules inherit, and the treatment of flows that no rule matches.

use uc_core::rule::Match;
use uc_law::{Law, keys, owner};

use crate::fault::Faults;
use crate::file::{PolicyFile, Start, TreatmentTable};
use crate::number::in_range;
use crate::rule::Rule;

/// Checks that each default is in range and used by some rule.
pub(crate) fn check(file: &PolicyFile, faults: &mut Faults<'_>) {
    let table = &file.defaults.treatment;
    let mut laws = vec![table.law.unwrap_or(Law::PASS)];
    laws.extend(file.rules.iter().filter_map(|rule| rule.treatment.law));
    let idle = |what: &str| {
        format!("is of {what}, and neither [defaults] nor a rule has it; leave it out")
    };
    for (row, _) in table.parameters.iter() {
        if !laws.iter().any(|law| row.is_of(*law)) {
            let what = owner(row).map_or("law ecn or another".to_owned(), |(what, _)| what);
            faults.add(&format!("defaults.parameters.{}", row.key), idle(&what));
        }
    }
    for (name, message) in table.parameters.senseless(None) {
        faults.add(&format!("defaults.parameters.{name}"), message);
    }
    if table.legacy_only.is_some() && table.parameters.has(keys::GUEST_ECN) {
        let message =
            "sets the same as parameters.guest_ecn; remove legacy_only or parameters.guest_ecn";
        faults.add("defaults.legacy_only", message);
    }
    if let Some(coupling) = &table.coupling {
        if !laws.contains(&Law::COUPLED) {
            faults.add("defaults.coupling", idle("law coupled"));
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
        let message = "has an effect only with the start `watch`, which neither [defaults] nor a \
                       rule has; add start = \"watch\", or leave it out";
        faults.add("defaults.watch", message);
    }
    for (name, message) in table.watch.faults() {
        faults.add(&format!("defaults.watch.{name}"), message);
    }
}

/// Returns the last rule, for every flow of every port: that of `[defaults]`. Faults that [`check`] reports are not
/// reported again.
pub(crate) fn rule(table: &TreatmentTable, faults: &mut Faults<'_>) -> Rule {
    let law = table.law.unwrap_or(Law::PASS);
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
