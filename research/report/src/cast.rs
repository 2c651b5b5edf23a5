//! The ink of each flow: by the flow's kind, or, where that does not tell groups apart, by the name
//! of its group.

use uc_experiment::{Application, Case, Experiment, FlowRecord, Guests, Law};

use crate::ink::Ink;
use crate::scene::Scene;

/// The inks of an experiment's groups.
pub(crate) struct Cast {
    /// Names of groups, if inks go by name.
    names: Option<Vec<String>>,
}

impl Cast {
    /// Assigns inks by the kind of flow, unless two groups of flows in one case are of the same
    /// kind.
    pub(crate) fn of(scenes: &[Scene<'_>]) -> Self {
        if !scenes.iter().any(has_equal_groups) {
            return Self { names: None };
        }
        let mut names: Vec<String> = Vec::new();
        for guests in scenes.iter().flat_map(|scene| &scene.case.guests) {
            if !names.contains(&guests.name) {
                names.push(guests.name.clone());
            }
        }
        Self { names: Some(names) }
    }

    /// Returns the ink of a group's flows.
    pub(crate) fn ink(&self, scene: &Scene<'_>, group: &str) -> Ink {
        let Some(names) = &self.names else {
            let guests = scene.case.group(group);
            return guests.map_or(Ink::Faint, |guests| kind(scene.experiment, guests));
        };
        let number = names.iter().position(|name| name == group);
        number.map_or(Ink::Faint, Ink::line)
    }

    /// Returns the inks that occur, with their descriptions.
    pub(crate) fn legend(&self, scenes: &[Scene<'_>]) -> Vec<(Ink, String)> {
        if let Some(names) = &self.names {
            let inks = names.iter().enumerate();
            return inks.map(|(i, name)| (Ink::line(i), name.clone())).collect();
        }
        let mut inks = Vec::new();
        for scene in scenes {
            let groups = scene.case.guests.iter();
            inks.extend(groups.map(|guests| kind(scene.experiment, guests)));
        }
        let kinds = [
            (Ink::Native, "ECN flow"),
            (Ink::Legacy, "legacy flow (no ECN)"),
            (Ink::Virtual, "legacy flow that a law translates"),
        ];
        let occurs = kinds.into_iter().filter(|(ink, _)| inks.contains(ink));
        occurs.map(|(ink, words)| (ink, words.to_owned())).collect()
    }
}

fn has_equal_groups(scene: &Scene<'_>) -> bool {
    let groups = scene.case.guests.iter();
    let many: Vec<&Guests> = groups
        .filter(|guests| !is_special(scene.case, &guests.name))
        .collect();
    let kind = |guests: &Guests| kind(scene.experiment, guests);
    let equal = |(i, guests): (usize, &&Guests)| many[..i].iter().any(|g| kind(g) == kind(guests));
    many.iter().enumerate().any(equal)
}

fn kind(experiment: &Experiment, guests: &Guests) -> Ink {
    let stack = experiment.stacks.get(&guests.stack);
    let asks_for_ecn = stack.is_some_and(|stack| stack.ecn);
    match guests.law.filter(|_| !guests.is_observed()) {
        Some(Law::PASS) | None if asks_for_ecn => Ink::Native,
        Some(Law::PASS) | None => Ink::Legacy,
        Some(_) => Ink::Virtual,
    }
}

/// Returns whether a group is a single flow beside other groups, which a figure emphasises.
pub(crate) fn is_special(case: &Case, group: &str) -> bool {
    case.guests.len() > 1
        && case
            .group(group)
            .is_some_and(|guests| guests.total_flows() == 1)
}

/// Returns the flows of the scene's first repetition, single flows last, so that they are drawn on
/// top.
pub(crate) fn flows<'a>(scene: &Scene<'a>) -> Vec<&'a FlowRecord> {
    let Some(record) = scene.first() else {
        return Vec::new();
    };
    let mut flows: Vec<&FlowRecord> = record.flows.iter().collect();
    flows.sort_by_key(|flow| is_special(scene.case, &flow.group));
    flows
}

/// Returns the flow whose window is drawn: the single flow beside a group, else a bulk flow, else
/// any.
pub(crate) fn representative<'a>(scene: &Scene<'a>) -> Option<&'a FlowRecord> {
    let worth = |flow: &&FlowRecord| {
        let group = scene.case.group(&flow.group);
        let is_bulk = group.is_some_and(|guests| guests.application == Application::Bulk);
        (is_special(scene.case, &flow.group), is_bulk)
    };
    flows(scene).into_iter().max_by_key(worth)
}
