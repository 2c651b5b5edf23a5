//! A process of the agent in a simulated host ([`World`]): it starts, runs turns of its engine, and is started again
//! when it ends.

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};

use nix::fcntl::Flock;
use tokio::sync::oneshot;
use uc_client::{AgentError, AgentState};
use uc_faults::{Interface, World, inside};
use uc_port::ProgramObject;

use super::policy::HOST;
use crate::engine::Engine;
use crate::event::Event;
use crate::guests::Places;
use crate::links::Link;
use crate::publish::Shared;
use crate::request::Request;
use crate::run::claim;
use crate::settings::{Options, Settings};
use crate::source::Source;

/// Path of the policy file.
pub const CONFIG: &str = "/etc/undercurrent.toml";

/// A process of the agent.
pub struct Agent {
    engine: Engine,
    shared: Shared,
    events: Receiver<Event>,
    /// Locks of the agent's socket and store, which are released when the process ends.
    _locks: [Flock<File>; 2],
}

/// Returns the host's interfaces, as netlink lists them.
fn links(world: &World) -> Vec<Link> {
    let link = |(ifindex, own): (&u32, &Interface)| Link {
        ifindex: *ifindex,
        name: own.name.clone(),
        ..Link::default()
    };
    world.interfaces.iter().map(link).collect()
}

impl Agent {
    /// Starts a process with these port programs; `swap`: it replaces the programs in force.
    pub fn start(
        world: &mut World,
        object: &ProgramObject,
        swap: bool,
    ) -> Result<Self, AgentError> {
        let links = links(world);
        inside(world, || {
            let source = Source::open(PathBuf::from(CONFIG))?;
            let own = source.own().clone();
            let locks = claim(&own)?;
            let options = Options {
                swap,
                ..Options::default()
            };
            let mut settings = Settings::new(&own, &options, object.clone());
            HOST.clone_into(&mut settings.host);
            settings.places = Places {
                libvirt: PathBuf::from("/run/libvirt"),
                cni: PathBuf::from("/run/cni"),
            };
            let (events, heard) = mpsc::channel();
            let shared = Shared::new(events);
            Ok(Self {
                engine: Engine::new(settings, source, links, shared.clone())?,
                shared,
                events: heard,
                _locks: locks,
            })
        })
    }

    /// Sends the process an event, which it handles at its next turn.
    pub fn tell(&self, event: Event) {
        self.shared.tell(event);
    }

    /// Sends the process an operator's request.
    pub fn wish(&self, wish: Request) {
        let (reply, _unheard) = oneshot::channel();
        self.tell(Event::Request(wish, reply));
    }

    /// Returns the checksum of a policy that waits for the operator's confirmation; `None`: none waits.
    pub fn asks_to_confirm(&self) -> Option<String> {
        let state = self.state();
        let errors = state.reads().flat_map(|read| &read.errors);
        let mut hashes =
            errors.filter_map(|error| error.split_once("`uc confirm ")?.1.split_once('`'));
        hashes.next().map(|(hash, _)| hash.to_owned())
    }

    /// Lets the maximum time until the next turn pass, sends the process the current interfaces, and runs a turn.
    pub fn turn(&mut self, world: &mut World) {
        let wait = inside(world, || self.engine.wait());
        world.sleep(wait.as_nanos() as u64);
        self.shared.tell_links(links(world));
        let events: Vec<Event> = self.events.try_iter().collect();
        inside(world, || self.engine.turn(events.into_iter()));
    }

    /// Ends the process in order.
    pub fn end(mut self, world: &mut World) {
        inside(world, || {
            self.engine.end();
            drop(self);
        });
    }

    /// Drops what is left of a process that was ended. It has no further effect in the world.
    pub fn bury(self, world: &mut World) {
        inside(world, || drop(self));
        world.bury();
    }

    /// Returns the state that the process has published.
    pub fn state(&self) -> AgentState {
        self.shared.state()
    }
}
