//! From what is desired and what is there to what is to be done: a pure function.

use std::collections::{BTreeMap, BTreeSet};

/// What is there: the interfaces with the programs on them, and what these were told of each. One
/// that nothing is known of was told something else.
pub type Actual<P> = BTreeMap<u32, Option<P>>;

/// One step. The steps are done in their order; one that fails keeps none of the others from being
/// done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<P> {
    /// Take the programs off these interfaces.
    Detach(BTreeSet<u32>),
    /// Tell the programs on these interfaces all of this at once, and nothing else is true any more.
    Tell(BTreeMap<u32, P>),
    /// Put the programs on these interfaces, which know then what to do there.
    Attach(BTreeMap<u32, P>),
}

/// The steps from `actual` to `desired`, a plan for each interface.
///
/// What changes changes at one moment everywhere, so a change of one interface is told for all that
/// stay. What isn't wanted goes last: with the last port the programs would go, and with the next
/// one come anew.
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

    /// What the kernel does with a step.
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
        fn the_steps_lead_from_anywhere_to_what_is_desired_and_then_there_are_none(
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
        fn whoever_dies_between_two_steps_leaves_what_the_next_can_finish(
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
