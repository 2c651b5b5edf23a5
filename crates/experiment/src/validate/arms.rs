//! What each arm can run: the keys that only one of them knows how to set.

use super::{Check, Fault, fault};
use crate::application::Application;
use crate::arm::Arm;
use crate::case::{Case, Guests, Law};
use crate::error::Error;
use crate::network::Topology;
use crate::schema::Experiment;
use crate::stack::SIMULATED_CONGESTION_CONTROLS;

/// Addresses of the live arm are one octet, of which the receiver takes one too (10.77.0.2 to
/// 10.77.0.254).
const LIVE_GUESTS_MAX: u32 = 250;

impl Experiment {
    /// Checks that the experiment, at every point of its sweep, can be run on `arm`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first key that this arm can't set, with its place, and the arm
    /// that can.
    pub fn suits(&self, arm: Arm) -> Result<(), Error> {
        if let Some(arms) = self.arms.as_ref().filter(|arms| !arms.contains(&arm)) {
            let names: Vec<&str> = arms.iter().map(|arm| arm.name()).collect();
            return Err(self.invalid((
                "arms".into(),
                format!(
                    "not to be run on {arm}; run it with --on {}",
                    names.join("|")
                ),
            )));
        }
        for point in self.points()? {
            check_arm(&point.experiment, arm).map_err(|(key, only)| {
                let message = format!("{only}; run it with --on {}", other(arm));
                point.experiment.invalid((key, message))
            })?;
        }
        Ok(())
    }
}

/// The arms that a file names can set all its keys.
pub(super) fn check_arms(experiment: &Experiment) -> Check {
    let Some(arms) = &experiment.arms else {
        return Ok(());
    };
    if arms.is_empty() {
        return fault("arms", "names no arm; leave it out, or name sim or live");
    }
    arms.iter().try_for_each(|arm| {
        check_arm(experiment, *arm).map_err(|(key, only)| {
            let message = format!("{only}; leave it out, or take {arm} off `arms`");
            (key, message)
        })
    })
}

/// Where to run what this arm can't.
fn other(arm: Arm) -> Arm {
    match arm {
        Arm::Sim => Arm::Live,
        Arm::Live => Arm::Sim,
    }
}

fn check_arm(experiment: &Experiment, arm: Arm) -> Check {
    match arm {
        Arm::Live => check_live(experiment),
        Arm::Sim => check_sim(experiment),
    }
}

/// A key that only the other arm can set, and what it asks for.
fn only(key: impl Into<String>, what: &str, arm: Arm) -> Fault {
    (key.into(), format!("{what} is for {arm} only"))
}

fn check_live(experiment: &Experiment) -> Check {
    let network = &experiment.network;
    if network.topology != Topology::Star {
        let what = format!("a {}", network.topology.name());
        return Err(only("network.topology", &what, Arm::Sim));
    }
    if network.processing.0 > 0 {
        return Err(only("network.processing", "processing", Arm::Sim));
    }
    for (name, stack) in &experiment.stacks {
        if let Some(key) = stack.simulated_keys().first() {
            return Err(only(format!("stack.{name}.{key}"), key, Arm::Sim));
        }
    }
    let mut cases = experiment.cases.iter().enumerate();
    cases.try_for_each(|(i, case)| check_live_case(&format!("case.{i}"), case))
}

fn check_live_case(key: &str, case: &Case) -> Check {
    for (i, guests) in case.guests.iter().enumerate() {
        let key = format!("{key}.guests.{i}");
        if guests.application != Application::Bulk {
            let what = format!("the application {}", guests.application.name());
            return Err(only(format!("{key}.application"), &what, Arm::Sim));
        }
    }
    check_live_coupling(key, case)?;
    let guests = case.guests.iter().map(|guests: &Guests| guests.count);
    let guests = guests.fold(0u32, u32::saturating_add);
    if guests > LIVE_GUESTS_MAX {
        let what = format!("a case of more than {LIVE_GUESTS_MAX} guests, here {guests},");
        return Err(only(format!("{key}.guests"), &what, Arm::Sim));
    }
    Ok(())
}

/// One group, since all senders there have one receiver, and a group is the flows to it; and the
/// guests' kernels know nothing of the ports' groups.
fn check_live_coupling(key: &str, case: &Case) -> Check {
    let (mut first, mut first_law) = (None, None);
    for (i, guests) in case.guests.iter().enumerate() {
        let Some(coupling) = &guests.coupling else {
            continue;
        };
        let first = *first.get_or_insert(&coupling.group);
        if *first != coupling.group {
            let key = format!("{key}.guests.{i}.coupling.group");
            let what = format!("a second coupled group beside `{first}`");
            return Err(only(key, &what, Arm::Sim));
        }
        let by_port = guests.law == Some(Law::Coupled);
        if *first_law.get_or_insert(by_port) != by_port {
            let key = format!("{key}.guests.{i}.law");
            let what = "one group of guests with law coupled and guests without";
            return Err(only(key, what, Arm::Sim));
        }
    }
    Ok(())
}

fn check_sim(experiment: &Experiment) -> Check {
    if experiment.network.offload {
        return Err(only("network.offload", "segmentation offload", Arm::Live));
    }
    let known = SIMULATED_CONGESTION_CONTROLS;
    for (name, stack) in &experiment.stacks {
        if !known.contains(&stack.congestion_control.as_str()) {
            let key = format!("stack.{name}.congestion_control");
            let (own, known) = (&stack.congestion_control, known.join(", "));
            let what = format!("`{own}` (sim has {known})");
            return Err(only(key, &what, Arm::Live));
        }
    }
    Ok(())
}
