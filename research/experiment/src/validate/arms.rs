//! Checks of what each backend can run: the keys that only some of them support.

mod only;
mod shape;

use self::only::{Only, only, or};
use super::fault::{Check, fault};
use crate::Law;
use crate::application::Application;
use crate::arm::Arm;
use crate::case::{Case, Guests};
use crate::error::Error;
use crate::hypervisor::Hypervisor;
use crate::network::{ETHERNET_MTU, Topology};
use crate::pattern::Pattern;
use crate::schema::{Experiment, SERVER_STACK};
use crate::stack::SIMULATED_CONGESTION_CONTROLS;
use crate::units::Nanos;

/// Maximum number of VMs of a case. On a host with two cores, ten guests at 100 Mb/s leave half a core idle, twenty
/// leave nothing.
const VM_GUESTS_MAX: u32 = 16;
/// Minimum slice of a stalled machine or receiver: a host's timers cannot keep shorter ones.
const SLICE_MIN: Nanos = Nanos(1_000_000);
/// Maximum slice of a stalled machine or receiver: connections end in longer stalls.
const SLICE_MAX: Nanos = Nanos(1_000_000_000);

const SIM_LIVE: [Arm; 2] = [Arm::Sim, Arm::Live];
const SIM_VM: [Arm; 2] = [Arm::Sim, Arm::Vm];
const LIVE_VM: [Arm; 2] = [Arm::Live, Arm::Vm];

impl Experiment {
    /// Checks that the experiment can be run on `arm` at every point of its sweep.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first key that this backend can't set, with file, line and column,
    /// and the backends that can.
    pub fn suits(&self, arm: Arm) -> Result<(), Error> {
        if let Some(arms) = self.arms.as_ref().filter(|arms| !arms.contains(&arm)) {
            return Err(self.invalid((
                "arms".into(),
                format!(
                    "the file's `arms` exclude backend {arm}; run the experiment with --on {}",
                    or(arms, "|")
                ),
            )));
        }
        for point in self.points()? {
            check_arm(&point.experiment, arm).map_err(|only| {
                let message = format!("{}; run it with --on {}", only.message, or(only.arms, "|"));
                point.experiment.invalid((only.key, message))
            })?;
        }
        Ok(())
    }
}

/// Checks that the backends that a file names can set all its keys.
pub(super) fn check_arms(experiment: &Experiment) -> Check {
    let Some(arms) = &experiment.arms else {
        return Ok(());
    };
    if arms.is_empty() {
        return fault(
            "arms",
            "names no arm; leave it out, or name sim, live or vm",
        );
    }
    arms.iter().try_for_each(|arm| {
        check_arm(experiment, *arm).map_err(|only| {
            let message = format!("{}; leave it out, or take {arm} off `arms`", only.message);
            (only.key, message)
        })
    })
}

fn check_arm(experiment: &Experiment, arm: Arm) -> Result<(), Only> {
    match arm {
        Arm::Vm => check_vm(experiment),
        Arm::Live => check_live(experiment),
        Arm::Sim => check_sim(experiment),
    }
}

/// Checks that real kernels have all keys of the experiment, and that its cases are small enough for VMs.
fn check_vm(experiment: &Experiment) -> Result<(), Only> {
    check_real(experiment)?;
    check_mtu(experiment)?;
    if experiment.slower > 1 {
        return Err(only("slower", "slower", &SIM_LIVE));
    }
    let topology = experiment.network.topology;
    if topology != Topology::Star {
        let what = format!("a {}", topology.name());
        return Err(only("network.topology", &what, &SIM_LIVE));
    }
    let cases = experiment.cases.iter().enumerate();
    for (i, case) in cases {
        check_machines(&format!("case.{i}"), case)?;
        if experiment.receiver_stack(case).kernel.is_some() {
            let receiver = case.receiver.as_deref().unwrap_or(SERVER_STACK);
            return Err(Only {
                key: format!("stack.{receiver}.kernel"),
                message:
                    "receivers run on the host's own kernel, so this key has no effect; remove it"
                        .into(),
                arms: &[Arm::Vm],
            });
        }
        let guests = case.guests.iter().map(|guests| guests.count);
        let guests = guests.fold(0u32, u32::saturating_add);
        if guests > VM_GUESTS_MAX {
            let what = format!("a case of more than {VM_GUESTS_MAX} guests, here {guests},");
            return Err(Only {
                key: format!("case.{i}.guests"),
                message: format!("{what} is too large for virtual machines"),
                arms: &SIM_LIVE,
            });
        }
    }
    Ok(())
}

/// Checks that a case has no key that the backend `vm` lacks, such as start times, start laws and held packets.
fn check_machines(key: &str, case: &Case) -> Result<(), Only> {
    for (i, guests) in case.guests.iter().enumerate() {
        for (name, is_set) in [
            ("start", guests.start.0 > 0),
            ("start_spread", guests.start_spread.0 > 0),
            ("stop", guests.stop.is_some()),
            ("application", !is_from_machines(guests)),
            ("start_law", guests.start_law.is_some()),
            ("hold", guests.hold.is_some()),
            ("dupack", guests.dupack.is_some()),
        ] {
            if is_set {
                return Err(only(format!("{key}.guests.{i}.{name}"), name, &SIM_LIVE));
            }
        }
        if let Some(hypervisor) = &guests.hypervisor {
            check_stalls(&format!("{key}.guests.{i}.hypervisor"), hypervisor)?;
        }
        // by the guests' own TCP; a port's coupling belongs to this host's kernel
        let coupling = guests.coupling.as_ref();
        let Some(coupling) = coupling.filter(|_| guests.law != Some(Law::COUPLED)) else {
            continue;
        };
        if coupling.priority != 1 {
            let key = format!("{key}.guests.{i}.coupling.priority");
            return Err(only(
                key,
                "a priority other than 1 of guests whose own TCP is coupled",
                &[Arm::Live],
            ));
        }
        if !case.coupling.are_default() {
            let what = "`coupling` of a case whose guests couple their own TCP";
            return Err(only(format!("{key}.coupling"), what, &[Arm::Live]));
        }
    }
    Ok(())
}

/// Checks the stalls of a VM or a receiver: no key of the simulator alone (a kernel has a fixed tick), and no slice
/// outside [`SLICE_MIN`] to [`SLICE_MAX`].
fn check_stalls(key: &str, hypervisor: &Hypervisor) -> Result<(), Only> {
    if let Some(name) = hypervisor.simulated_keys().next() {
        return Err(only(format!("{key}.{name}"), name, &[Arm::Sim]));
    }
    if hypervisor.vms > 1 && !(SLICE_MIN..=SLICE_MAX).contains(&hypervisor.slice) {
        let what = format!("a slice that is not between {SLICE_MIN} and {SLICE_MAX}");
        return Err(only(format!("{key}.slice"), &what, &[Arm::Sim]));
    }
    Ok(())
}

fn check_live(experiment: &Experiment) -> Result<(), Only> {
    check_real(experiment)?;
    for (name, stack) in &experiment.stacks {
        if stack.kernel.is_some() {
            let key = format!("stack.{name}.kernel");
            return Err(only(
                key,
                "a stack with a kernel of its own (`kernel`)",
                &[Arm::Vm],
            ));
        }
        if stack.pvtcp.is_some() {
            return Err(only(format!("stack.{name}.pvtcp"), "pvtcp", &SIM_VM));
        }
    }
    for (i, case) in experiment.cases.iter().enumerate() {
        let stalled = case
            .guests
            .iter()
            .position(|guests| guests.hypervisor.is_some());
        if let Some(j) = stalled {
            let key = format!("case.{i}.guests.{j}.hypervisor");
            return Err(only(key, "hypervisor", &SIM_VM));
        }
    }
    Ok(())
}

/// Checks that no key needs the simulator: such keys work on neither backend with real kernels.
fn check_real(experiment: &Experiment) -> Result<(), Only> {
    let network = &experiment.network;
    if network.processing.0 > 0 {
        return Err(only("network.processing", "processing", &[Arm::Sim]));
    }
    for (name, stack) in &experiment.stacks {
        if let Some(key) = stack.simulated_keys(experiment.slower).first() {
            return Err(only(format!("stack.{name}.{key}"), key, &[Arm::Sim]));
        }
    }
    let mut cases = experiment.cases.iter().enumerate();
    cases.try_for_each(|(i, case)| check_real_case(&format!("case.{i}"), case, network.topology))
}

fn check_real_case(key: &str, case: &Case, topology: Topology) -> Result<(), Only> {
    if let Some(hypervisor) = &case.receiver_hypervisor {
        check_stalls(&format!("{key}.receiver_hypervisor"), hypervisor)?;
    }
    for (i, guests) in case.guests.iter().enumerate() {
        let key = format!("{key}.guests.{i}");
        if guests.hold.is_some() && guests.law.is_none() {
            let what = "hold without a law on the port (\"pass\" will do)";
            return Err(only(format!("{key}.hold"), what, &[Arm::Sim]));
        }
        let is_web = matches!(guests.application, Application::Web { .. });
        if is_web && guests.group().is_some_and(|group| group.priority > 1) {
            let what = "the application web with a priority";
            return Err(only(format!("{key}.application"), what, &[Arm::Sim]));
        }
        if !is_real(guests) {
            let what = format!("the application {}", guests.application.name());
            return Err(only(format!("{key}.application"), &what, &[Arm::Sim]));
        }
        let without_port = guests.law.is_none() || case.receiver_law.is_none();
        if guests.start_law.is_some() && without_port {
            let what = "a start without a law on both ends' ports (\"pass\" will do)";
            return Err(only(format!("{key}.start_law"), what, &[Arm::Sim]));
        }
        let is_timed = matches!(
            guests.application,
            Application::Messages { every: Some(_), .. }
        );
        if is_timed && guests.pattern == Some(Pattern::Random) {
            let what = "messages at fixed times to random hosts (without `every` they can be)";
            return Err(only(format!("{key}.pattern"), what, &[Arm::Sim]));
        }
        if is_web && matches!(topology, Topology::LeafSpine { .. }) {
            let what =
                "the application web in a leaf-spine, where each connection may take another path,";
            return Err(only(format!("{key}.application"), what, &[Arm::Sim]));
        }
        if is_web && guests.pattern.is_some() {
            let what = "the application web with a pattern";
            return Err(only(format!("{key}.pattern"), what, &[Arm::Sim]));
        }
        if guests.start_spread.0 > 0 && has_pages(guests) {
            let key = format!("{key}.start_spread");
            return Err(only(
                key,
                "start_spread with the application of web pages",
                &[Arm::Sim],
            ));
        }
    }
    shape::check_case(key, case, topology)
}

/// Returns whether the group's receiver requests pages, which a real web server serves on the live
/// backend.
fn has_pages(guests: &Guests) -> bool {
    matches!(
        guests.application,
        Application::Epochs {
            request: Some(_),
            ..
        }
    )
}

/// Returns whether a backend with real kernels has the group's application.
fn is_real(guests: &Guests) -> bool {
    let is_from_namespaces = matches!(
        guests.application,
        Application::Messages { .. }
            | Application::Transfer { .. }
            | Application::Epochs { .. }
            | Application::Web { .. }
    );
    is_from_machines(guests) || is_from_namespaces
}

/// Returns whether guests in VMs have the group's application.
fn is_from_machines(guests: &Guests) -> bool {
    matches!(
        guests.application,
        Application::Bulk | Application::Incast { .. }
    )
}

/// Checks that the MTU is Ethernet's, on a backend that cannot set another.
fn check_mtu(experiment: &Experiment) -> Result<(), Only> {
    if experiment.network.mtu == ETHERNET_MTU {
        return Ok(());
    }
    let what = "an MTU other than Ethernet's 1500 bytes";
    Err(only("network.mtu", what, &[Arm::Live]))
}

fn check_sim(experiment: &Experiment) -> Result<(), Only> {
    if experiment.network.offload {
        return Err(only("network.offload", "segmentation offload", &LIVE_VM));
    }
    check_mtu(experiment)?;
    let known = SIMULATED_CONGESTION_CONTROLS;
    for (name, stack) in &experiment.stacks {
        if stack.kernel.is_some() {
            let key = format!("stack.{name}.kernel");
            return Err(only(
                key,
                "a stack with a kernel of its own (`kernel`)",
                &[Arm::Vm],
            ));
        }
        if !known.contains(&stack.congestion_control.as_str()) {
            let key = format!("stack.{name}.congestion_control");
            let (own, known) = (&stack.congestion_control, known.join(", "));
            let what = format!("`{own}` (sim has {known})");
            return Err(only(key, &what, &LIVE_VM));
        }
    }
    Ok(())
}
