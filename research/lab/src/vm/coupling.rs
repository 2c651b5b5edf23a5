//! VMs that couple their own connections (ctrlTCP), coupled by this host: each loads the coupled
//! congestion control and reports over its port `uc.ccc` to a controller that runs here as long as
//! the flows do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uc_guest::coupling::host::Policy;
use uc_guest::coupling::serve::{Event, ServeError, Server};
use uc_guest::coupling::{GuestSetup, Place};

use crate::Plan;
use crate::load::GoOn;
use crate::plan::Guest;
use crate::vm::error::{VmError, resource};
use crate::vm::machine::{Machine, PATIENCE};
use crate::vm::message::{Answer, Request};

/// Time limit for loading the programs. Verification takes two seconds of a CPU, half a minute on
/// an emulated one, and the host may be busy.
const LOADING: Duration = Duration::from_secs(300);
/// Time limit for a guest's first report: QEMU's socket is tried five times a second.
const SPEAKING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// The host's side of the coupling; dropping it ends the coupling.
#[derive(Debug)]
pub(crate) struct Coupling {
    /// Folder of the VMs' sockets.
    folder: TempDir,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<Result<(), ServeError>>>,
    /// Labels of the guests that the controller has coupled and not lost since.
    coupled: Arc<Mutex<BTreeSet<String>>>,
}

/// Returns the kernel's name of the congestion control that the experiment names for a guest.
pub(crate) fn kernel_name(guest: &Guest) -> &str {
    match &guest.stack.congestion_control[..] {
        "reno" | "ctrltcp" if guest.couples() => "uc_ctrltcp",
        "cubic" | "ctrlcubic" if guest.couples() => "uc_ctrlcubic",
        other => other,
    }
}

/// Returns the kernel's name of the congestion control that the guest's coupled control builds on, which may be a
/// module; for a guest without coupling, of its own.
pub(crate) fn law_name(guest: &Guest) -> &str {
    match &guest.stack.congestion_control[..] {
        "ctrltcp" if guest.couples() => "reno",
        "ctrlcubic" if guest.couples() => "cubic",
        other => other,
    }
}

impl Coupling {
    /// Creates the coupling; `None` where no guest couples its connections.
    pub fn of(plan: &Plan) -> Result<Option<Self>, VmError> {
        if !plan.guests.iter().any(Guest::couples) {
            return Ok(None);
        }
        let folder = tempfile::tempdir().map_err(resource("make a folder for sockets"))?;
        Ok(Some(Self {
            folder,
            stop: Arc::default(),
            server: None,
            coupled: Arc::default(),
        }))
    }

    /// Returns the path where QEMU creates the socket of a guest's port.
    pub fn socket(&self, guest: &Guest) -> PathBuf {
        self.folder.path().join(format!("{}.sock", guest.port))
    }

    /// Loads the coupled control into the guests that couple, and couples them; from then on their
    /// connections can select it.
    pub fn begin(
        &mut self,
        plan: &Plan,
        machines: &mut [Machine],
        go_on: GoOn<'_>,
    ) -> Result<(), VmError> {
        let guests = plan.guests.iter().zip(machines);
        let mut members: Vec<_> = guests.filter(|(guest, _)| guest.couples()).collect();
        for (_, machine) in &mut members {
            machine.tell(&load())?;
        }
        for (_, machine) in &mut members {
            loaded(machine, go_on)?;
        }
        let setups = members.iter().map(|(guest, _)| self.setup(guest));
        self.serve(setups.collect())?;
        let arguments = ["/bin/uc", "guest", "couple"].map(str::to_owned);
        for (_, machine) in &mut members {
            let arguments = arguments.to_vec();
            machine.order(&Request::Start { arguments })?;
        }
        for (guest, machine) in &members {
            self.wait_for(guest, machine, go_on)?;
        }
        Ok(())
    }

    /// Returns the number of guests that are coupled now.
    pub fn coupled(&self) -> u64 {
        let coupled = self.coupled.lock().unwrap_or_else(PoisonError::into_inner);
        coupled.len() as u64
    }

    fn setup(&self, guest: &Guest) -> GuestSetup {
        GuestSetup {
            name: guest.label.clone(),
            place: Place::Connect(self.socket(guest)),
            weight: guest.coupling.as_ref().map_or(1, |of| of.weight),
        }
    }

    fn serve(&mut self, guests: Vec<GuestSetup>) -> Result<(), VmError> {
        let server = Server::new(Policy::default(), guests);
        let mut server = server
            .map_err(std::io::Error::other)
            .map_err(resource("couple the guests"))?;
        let (stop, coupled) = (Arc::clone(&self.stop), Arc::clone(&self.coupled));
        let run = move || {
            let mut tell = |name: &str, event: Event<'_>| {
                let mut coupled = coupled.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Event::Coupled => coupled.insert(name.to_owned()),
                    Event::Waiting { .. } | Event::Gone | Event::LeftOut(_) => coupled.remove(name),
                };
            };
            server.run(&stop, &mut tell)
        };
        self.server = Some(thread::spawn(run));
        Ok(())
    }

    fn wait_for(&self, guest: &Guest, machine: &Machine, go_on: GoOn<'_>) -> Result<(), VmError> {
        let deadline = Instant::now() + SPEAKING;
        loop {
            go_on()?;
            let coupled = self.coupled.lock().unwrap_or_else(PoisonError::into_inner);
            if coupled.contains(&guest.label) {
                return Ok(());
            }
            drop(coupled);
            if Instant::now() >= deadline {
                return Err(VmError::Inside {
                    node: machine.node().into(),
                    detail: format!(
                        "`uc guest couple` has said nothing in {} s; on a host that is this busy, \
                         take `coupling` off or try again",
                        SPEAKING.as_secs()
                    ),
                });
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Coupling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _nothing_is_left_to_couple = server.join();
        }
    }
}

fn load() -> Request {
    let arguments = ["/bin/uc", "guest", "load", "ctrltcp"].map(str::to_owned);
    Request::Run {
        arguments: arguments.to_vec(),
        input: String::new(),
        seconds: LOADING.as_secs(),
    }
}

fn loaded(machine: &mut Machine, go_on: GoOn<'_>) -> Result<(), VmError> {
    match machine.hear_while(LOADING + PATIENCE, go_on)? {
        Answer::Ran(ran) if ran.status == Some(0) => Ok(()),
        Answer::Ran(ran) => Err(VmError::Inside {
            node: machine.node().into(),
            detail: format!(
                "the coupled congestion control was not loaded (it needs a kernel from 6.4 on; \
                 `kernel` of the stack says which): {}",
                ran.stderr.trim()
            ),
        }),
        other => Err(machine.unexpected(&other)),
    }
}
