//! Computes the steps from the actual to the desired state of ports, as a pure function.

use std::collections::{BTreeMap, BTreeSet};

/// The actual state: the interfaces that have the programs, and the plan of each. An unknown plan
/// (`None`) differs from any desired one.
pub type Actual<P> = BTreeMap<u32, Option<P>>;

/// One step. Steps are executed in order; a failed step does not prevent the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<P> {
    /// Detach the programs from the interfaces with these indices.
    Detach(BTreeSet<u32>),
    /// Set exactly these plans for the whole host, all at once.
    Tell(BTreeMap<u32, P>),
    /// Attach the programs to the interfaces with these indices, each with its plan.
    Attach(BTreeMap<u32, P>),
}

/// Returns the steps from `actual` to `desired`, which has a plan for each interface.
///
/// All plans change at one moment, so a change of one interface sets the plans of all that stay.
/// Detaching comes last: detaching the last port would unload the programs, and the next attachment
/// would load them again.
pub fn steps<P: Clone + PartialEq>(
    desired: &BTreeMap<u32, P>,
    actual: &Actual<P>,
) -> Vec<Action<P>> {
    let unwanted = actual
        .keys()
        .filter(|ifindex| !desired.contains_key(ifindex));
    let unwanted: BTreeSet<u32> = unwanted.copied().collect();
    let (stay, missing): (BTreeMap<u32, P>, BTreeMap<u32, P>) = desired
        .iter()
        .map(|(ifindex, plan)| (*ifindex, plan.clone()))
        .partition(|(ifindex, _)| actual.contains_key(ifindex));
    let differs =
        |(ifindex, plan): (&u32, &P)| actual.get(ifindex).and_then(Option::as_ref) != Some(plan);
    let mut steps = Vec::new();
    if stay.iter().any(differs) {
        steps.push(Action::Tell(stay));
    }
    if !missing.is_empty() {
        steps.push(Action::Attach(missing));
    }
    if !unwanted.is_empty() {
        steps.push(Action::Detach(unwanted));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Applies a step as the kernel does.
    fn act(actual: &mut Actual<u8>, step: Action<u8>) {
        match step {
            Action::Detach(ports) => {
                for ifindex in ports {
                    assert!(actual.remove(&ifindex).is_some(), "{ifindex} was attached");
                }
            }
            Action::Tell(plans) => {
                for ifindex in plans.keys() {
                    assert!(actual.contains_key(ifindex), "{ifindex} is attached");
                }
                for (ifindex, told) in actual.iter_mut() {
                    *told = plans.get(ifindex).copied();
                }
            }
            Action::Attach(plans) => {
                for (ifindex, plan) in plans {
                    assert_eq!(actual.insert(ifindex, Some(plan)), None, "{ifindex}");
                }
            }
        }
    }

    fn whole(desired: &BTreeMap<u32, u8>) -> Actual<u8> {
        desired
            .iter()
            .map(|(port, plan)| (*port, Some(*plan)))
            .collect()
    }

    fn actuals() -> impl Strategy<Value = Actual<u8>> {
        prop::collection::btree_map(1u32..12, prop::option::of(0u8..3), 0..10)
    }

    fn plans() -> impl Strategy<Value = BTreeMap<u32, u8>> {
        prop::collection::btree_map(1u32..12, 0u8..3, 0..10)
    }

    proptest! {
        #[test]
        fn steps_lead_from_any_state_to_the_desired_one_and_then_end(
            desired in plans(),
            mut actual in actuals(),
        ) {
            for step in steps(&desired, &actual) {
                act(&mut actual, step);
            }
            prop_assert_eq!(&actual, &whole(&desired));
            prop_assert_eq!(steps(&desired, &actual), vec![]);
        }

        #[test]
        fn a_port_that_stays_is_neither_detached_nor_attached(
            desired in plans(),
            actual in actuals(),
        ) {
            let stays = |port: &u32| actual.contains_key(port) && desired.contains_key(port);
            for step in steps(&desired, &actual) {
                match step {
                    Action::Detach(ports) => prop_assert!(!ports.iter().any(stays)),
                    Action::Attach(plans) => prop_assert!(!plans.keys().any(stays)),
                    Action::Tell(_) => {}
                }
            }
        }

        #[test]
        fn after_a_kill_between_two_steps_the_next_run_finishes(
            desired in plans(),
            mut actual in actuals(),
            died_after in 0usize..4,
        ) {
            for step in steps(&desired, &actual).into_iter().take(died_after) {
                act(&mut actual, step);
            }
            for step in steps(&desired, &actual) {
                act(&mut actual, step);
            }
            prop_assert_eq!(&actual, &whole(&desired));
        }
    }
}
