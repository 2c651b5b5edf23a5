//! Finds out which flows a port's law translates. Only their data is kept: the host hides their losses from
//! the guest, so the law must slow the guest down.

use std::cell::RefCell;
use std::sync::Arc;

use uc_core::{Law, Policy, consts};
use uc_port::{PortPlan, Programs, Source};

use crate::error::HoldError;
use crate::flow::Flow;

/// Reads the laws of ports' flows from the port programs, if any port of the host has them.
#[derive(Debug)]
pub struct Laws {
    source: Source,
    programs: RefCell<Option<Arc<Programs>>>,
}

impl Laws {
    /// Opens the port programs, if a port has them.
    ///
    /// # Errors
    /// The kernel's refusal; pins of another version.
    pub fn open(source: Source) -> Result<Self, HoldError> {
        let programs = RefCell::new(source.programs()?);
        Ok(Self { source, programs })
    }

    /// Opens the port programs again, because others may be pinned now. While the pins cannot be opened, since they
    /// are of another version, no flow counts as translated.
    pub fn reopen(&self) {
        self.programs.replace(self.source.programs().ok().flatten());
    }

    /// Checks that a rule of the port has a law that answers losses.
    ///
    /// # Errors
    /// [`HoldError::Refused`] if no rule has such a law; the kernel's refusal.
    pub fn check(&self, ifindex: u32, name: &str) -> Result<(), HoldError> {
        let plan = match &*self.programs.borrow() {
            Some(programs) => programs.plan(ifindex)?,
            None => None,
        };
        match plan.is_some_and(|plan| has_law(&plan)) {
            true => Ok(()),
            false => Err(HoldError::Refused(format!(
                "port {name}: it has no law that answers the losses which --buffer repairs, so its \
                 guests would never slow down; `uc attach {name} --law ecn` attaches one"
            ))),
        }
    }

    /// Returns whether the port translates a flow by a law that answers losses. False if the flow is unknown or can't
    /// be read.
    pub fn translate(&self, flow: &Flow) -> bool {
        let programs = self.programs.borrow();
        let view = programs
            .as_ref()
            .map(|programs| programs.flow_of(flow.key()));
        let Some(Ok(Some(view))) = view else {
            return false;
        };
        u32::from(view.state.stage) == consts::TRANSLATING && answers(&view.state.policy)
    }
}

/// Returns whether a law with these settings answers losses: it is not `pass`, and does not only observe.
fn answers(policy: &Policy) -> bool {
    Law::of(policy) != Law::PASS && u32::from(policy.modes) & consts::MODE_OBSERVE == 0
}

fn has_law(plan: &PortPlan) -> bool {
    plan.rules.iter().any(|rule| answers(&rule.policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_pass_or_observe_are_no_law_that_answers_losses() {
        let has = |law: u32, modes: u32| {
            let policy = Policy {
                modes: modes as u8,
                ..Policy::new(law, consts::PROFILE_LINUX)
            };
            has_law(&PortPlan::of_all(policy, None))
        };
        assert!(has(consts::LAW_ECN, 0));
        assert!(has(consts::LAW_DELAY, consts::WITHHELD_SACK));
        assert!(!has(consts::LAW_ECN, consts::MODE_OBSERVE));
        assert!(!has(consts::LAW_PASS, 0));
        assert!(!has_law(&PortPlan::default()));
    }
}
