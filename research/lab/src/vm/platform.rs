//! The platform of VM guests: the lab's network and ports, with QEMU behind the taps.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use uc_experiment::Case;

use crate::load::GoOn;
use crate::plan::{Guest, mac_text};
use crate::vm::coupling::{self, Coupling};
use crate::vm::error::{VmError, resource};
use crate::vm::image::Programs;
use crate::vm::kernel::DEFAULT_SERIES;
use crate::vm::load::Senders;
use crate::vm::machine::{Machine, PATIENCE};
use crate::vm::message::{Answer, Request, SetUp};
use crate::vm::processors::{Apart, at_once};
use crate::vm::pvtcp;
use crate::vm::qemu::Shape;
use crate::vm::template::{Links, Template};
use crate::wiring::{Ends, guest_lines};
use crate::{Lab, LabError, Load, Plan, Platform, Reception, stack};

/// Booted VMs to copy: one for each kernel, with and without offload, made on first use.
#[derive(Debug)]
pub struct Templates {
    programs: Programs,
    processors: u8,
    booted: Mutex<HashMap<(String, bool), Arc<Template>>>,
}

impl Templates {
    /// Creates an empty set of VMs with these programs inside. Guests that couple their connections
    /// need `uc` among them.
    pub fn new(programs: Programs) -> Self {
        Self {
            programs,
            processors: 1,
            booted: Mutex::default(),
        }
    }

    /// Sets the number of CPUs of each VM; stalls take away only the first CPU.
    #[must_use]
    pub fn with_processors(mut self, processors: u8) -> Self {
        self.processors = processors;
        self
    }

    /// Returns the template with that kernel, and boots it on first use.
    ///
    /// # Errors
    /// As [`Template::boot`].
    pub fn get(
        &self,
        series: &str,
        offload: bool,
        go_on: GoOn<'_>,
    ) -> Result<Arc<Template>, VmError> {
        // Locked while one boots: two runs that want the same template share it.
        let mut booted = self.booted.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (series.to_owned(), offload);
        if let Some(template) = booted.get(&key) {
            return Ok(Arc::clone(template));
        }
        // A thread for each CPU, since stalls take away the first alone.
        let shape = Shape {
            processors: self.processors,
            ..Shape::narrow(offload)
        };
        let template = Template::boot_wide(series, &self.programs, shape, go_on)?;
        let template = Arc::new(template);
        booted.insert(key, Arc::clone(&template));
        Ok(template)
    }
}

/// A preparation of a run's guests before their flows start: for example loading a congestion
/// control.
pub type Prepare<'a> = &'a mut dyn FnMut(&Guest, &mut Machine) -> Result<(), VmError>;

/// The backend `vm`. One value serves one run.
pub struct Machines<'t> {
    templates: &'t Templates,
    apart: Option<Apart>,
    prepare: Option<Prepare<'t>>,
    sockets: Option<PathBuf>,
}

impl<'t> Machines<'t> {
    /// Creates the backend with copies of these templates.
    pub fn new(templates: &'t Templates) -> Self {
        Self {
            templates,
            apart: None,
            prepare: None,
            sockets: None,
        }
    }

    /// Reserves CPUs for this case: where the host has enough of them, whatever the calling thread starts stays off the
    /// guests' CPUs for as long as this value lives.
    #[must_use]
    pub fn apart_for(mut self, case: &Case) -> Self {
        self.apart = Apart::begin(at_once(case) * usize::from(self.templates.processors));
        self
    }

    /// Sets a preparation of each guest, which may run programs in it.
    #[must_use]
    pub fn prepared_by(mut self, prepare: Prepare<'t>) -> Self {
        self.prepare = Some(prepare);
        self
    }

    /// Sets a folder for sockets to each guest's port `uc.ccc`. A socket has its port's name:
    /// `port0.sock` is the first guest's.
    #[must_use]
    pub fn with_sockets_in(mut self, folder: PathBuf) -> Self {
        self.sockets = Some(folder);
        self
    }

    fn bring(
        &mut self,
        plan: &Plan,
        lab: &Lab,
        coupling: Option<&Coupling>,
        go_on: GoOn<'_>,
    ) -> Result<Vec<Machine>, VmError> {
        let mut started = Vec::with_capacity(plan.guests.len());
        for (guest, tap) in plan.guests.iter().zip(&lab.wiring.machines) {
            go_on()?;
            let series = guest.stack.kernel.as_deref().unwrap_or(DEFAULT_SERIES);
            let template = self.templates.get(series, plan.offload, go_on)?;
            let tap = tap.as_fd().try_clone_to_owned();
            let tap = tap.map_err(resource("hand a tap to a machine"))?;
            let given = self.sockets.as_ref();
            let given = given.map(|folder| folder.join(format!("{}.sock", guest.port)));
            let socket = coupling.map(|coupling| coupling.socket(guest)).or(given);
            let links = Links {
                tap: Some(&tap),
                coupling: socket.as_deref(),
            };
            started.push((template.start(&guest.label, links)?, template));
        }
        let mut machines = Vec::with_capacity(started.len());
        for ((mut machine, template), guest) in started.into_iter().zip(&plan.guests) {
            template.settle(&mut machine, go_on)?;
            if let Some(apart) = &self.apart {
                machine.place(apart)?;
            }
            if let Some(choices) = &guest.stack.pvtcp {
                pvtcp::load(&mut machine, template.kernel(), choices)?;
            }
            machines.push(machine);
        }
        for (guest, machine) in plan.guests.iter().zip(&mut machines) {
            machine.tell(&Request::SetUp(set_up(plan, guest)))?;
        }
        for machine in &mut machines {
            match machine.hear_while(PATIENCE, go_on)? {
                Answer::Done => {}
                other => return Err(machine.unexpected(&other)),
            }
        }
        if let Some(prepare) = &mut self.prepare {
            for (guest, machine) in plan.guests.iter().zip(&mut machines) {
                prepare(guest, machine)?;
            }
        }
        Ok(machines)
    }
}

impl Platform for Machines<'_> {
    fn ends(&self) -> Ends {
        Ends::Machines
    }

    fn start<'a>(
        &'a mut self,
        plan: &'a Plan,
        lab: &'a Lab,
        seed: u64,
        go_on: GoOn<'_>,
    ) -> Result<Box<dyn Load + 'a>, LabError> {
        let mut coupling = Coupling::of(plan)?;
        let mut machines = self.bring(plan, lab, coupling.as_ref(), go_on)?;
        if let Some(coupling) = &mut coupling {
            coupling.begin(plan, &mut machines, go_on)?;
        }
        let reception = Reception::start(plan, &lab.wiring)?;
        let senders = Senders::start(plan, machines, reception, seed, go_on)?;
        Ok(Box::new(senders.coupled_by(coupling)))
    }
}

/// Returns the guest's settings: those of its namespace in the live backend, and its address on the
/// link.
pub fn set_up(plan: &Plan, guest: &Guest) -> SetUp {
    let sysctls = stack::sysctls(plan.family, &guest.stack).into_iter();
    let mut lines = vec![format!("link set eth0 address {}", mac_text(guest.mac))];
    lines.extend(guest_lines(plan, guest));
    SetUp {
        sysctls: sysctls
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        lines,
        offload: plan.offload,
        congestion_controls: vec![coupling::law_name(guest).to_owned()],
    }
}
