//! The style of each flow: by the flow's kind, or, where that does not tell groups apart, by the name
//! of its group.

use uc_experiment::{Application, Case, Experiment, FlowRecord, Guests, Law};

use crate::line_style::LineStyle;
use crate::run_set::RunSet;

/// The styles of an experiment's groups.
pub(crate) struct FlowStyles {
    /// Names of the groups, if each group has a style of its own; `None`: styles go by the kind of flow.
    names: Option<Vec<String>>,
}

impl FlowStyles {
    /// Assigns styles by the kind of flow, unless two groups of flows in one case are of the same
    /// kind.
    pub(crate) fn of(sets: &[RunSet<'_>]) -> Self {
        if !sets.iter().any(has_equal_groups) {
            return Self { names: None };
        }
        let mut names: Vec<String> = Vec::new();
        for guests in sets.iter().flat_map(|set| &set.case.guests) {
            if !names.contains(&guests.name) {
                names.push(guests.name.clone());
            }
        }
        Self { names: Some(names) }
    }

    /// Returns the style of a group's flows.
    pub(crate) fn style(&self, set: &RunSet<'_>, group: &str) -> LineStyle {
        let Some(names) = &self.names else {
            let guests = set.case.group(group);
            return guests.map_or(LineStyle::Faint, |guests| kind(set.experiment, guests));
        };
        let number = names.iter().position(|name| name == group);
        number.map_or(LineStyle::Faint, LineStyle::line)
    }

    /// Returns the styles that occur, with their descriptions.
    pub(crate) fn legend(&self, sets: &[RunSet<'_>]) -> Vec<(LineStyle, String)> {
        if let Some(names) = &self.names {
            let styles = names.iter().enumerate();
            return styles
                .map(|(i, name)| (LineStyle::line(i), name.clone()))
                .collect();
        }
        let mut styles = Vec::new();
        for set in sets {
            let groups = set.case.guests.iter();
            styles.extend(groups.map(|guests| kind(set.experiment, guests)));
        }
        let kinds = [
            (LineStyle::Native, "ECN flow"),
            (LineStyle::Legacy, "legacy flow (no ECN)"),
            (LineStyle::Virtual, "legacy flow that a law translates"),
        ];
        let occurs = kinds
            .into_iter()
            .filter(|(style, _)| styles.contains(style));
        occurs
            .map(|(style, words)| (style, words.to_owned()))
            .collect()
    }
}

fn has_equal_groups(set: &RunSet<'_>) -> bool {
    let groups = set.case.guests.iter();
    let many: Vec<&Guests> = groups
        .filter(|guests| !is_special(set.case, &guests.name))
        .collect();
    let kind = |guests: &Guests| kind(set.experiment, guests);
    let equal = |(i, guests): (usize, &&Guests)| many[..i].iter().any(|g| kind(g) == kind(guests));
    many.iter().enumerate().any(equal)
}

fn kind(experiment: &Experiment, guests: &Guests) -> LineStyle {
    let stack = experiment.stacks.get(&guests.stack);
    let asks_for_ecn = stack.is_some_and(|stack| stack.ecn);
    match guests.law.filter(|_| !guests.is_observed()) {
        Some(Law::PASS) | None if asks_for_ecn => LineStyle::Native,
        Some(Law::PASS) | None => LineStyle::Legacy,
        Some(_) => LineStyle::Virtual,
    }
}

/// Returns whether a group is a single flow beside other groups, which a figure emphasises.
pub(crate) fn is_special(case: &Case, group: &str) -> bool {
    case.guests.len() > 1
        && case
            .group(group)
            .is_some_and(|guests| guests.total_flows() == 1)
}

/// Returns the flows of the set's first repetition, single flows last, so that they are drawn on
/// top.
pub(crate) fn flows<'a>(set: &RunSet<'a>) -> Vec<&'a FlowRecord> {
    let Some(record) = set.first() else {
        return Vec::new();
    };
    let mut flows: Vec<&FlowRecord> = record.flows.iter().collect();
    flows.sort_by_key(|flow| is_special(set.case, &flow.group));
    flows
}

/// Returns the flow whose window is drawn: a single flow beside a group, else a bulk flow, else any; `None` without
/// flows.
pub(crate) fn representative<'a>(set: &RunSet<'a>) -> Option<&'a FlowRecord> {
    let worth = |flow: &&FlowRecord| {
        let group = set.case.group(&flow.group);
        let is_bulk = group.is_some_and(|guests| guests.application == Application::Bulk);
        (is_special(set.case, &flow.group), is_bulk)
    };
    flows(set).into_iter().max_by_key(worth)
}
