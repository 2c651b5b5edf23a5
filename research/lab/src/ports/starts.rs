//! The start `watch` on a lab's ports: the watch programs, and a thread that holds handshakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use uc_experiment::Watch;
use uc_port::AttachVia;
use uc_watch::{Data, Holder, Injector, ProbeKey, Programs, Settings, WatchError, Watched};

use super::{Part, Port};
use crate::error::PortError;

/// The prefixes of the guests' addresses in every lab.
const PEERS: [&str; 2] = ["10.77.0.0/24", "fd77::/64"];
/// The probe key of the lab's hosts. It need not be secret: all of them are in this process.
const KEY: [u8; 16] = *b"this lab's hosts";
/// The limit of held handshakes, per second and in a burst: more than a case has.
const NO_LIMIT: u32 = 1_000_000;

/// The watch programs on a run's ports and the thread that holds handshakes. Nothing is pinned, so
/// both end with the run.
pub(super) struct LiveStarts {
    programs: Arc<Programs>,
    watched: Vec<Watched>,
    stop: Arc<AtomicBool>,
    holder: Option<JoinHandle<Result<(), WatchError>>>,
}

impl LiveStarts {
    /// Loads the programs and starts the holding thread; call it in the hosts' namespace.
    pub fn begin() -> Result<Self, PortError> {
        let programs = Arc::new(Programs::load(ProbeKey::from_bytes(KEY))?);
        for peer in PEERS {
            programs.add_peer(peer.parse()?)?;
        }
        let injector = Injector::new(&programs)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (held, stopping) = (Arc::clone(&programs), Arc::clone(&stop));
        let holder = thread::Builder::new()
            .name("uc-holder".into())
            .spawn(move || {
                Holder::new(&held, &injector).run(&|| stopping.load(Ordering::Relaxed))
            })?;
        Ok(Self {
            programs,
            watched: Vec::new(),
            stop,
            holder: Some(holder),
        })
    }

    /// Attaches the programs to one port: a guest's port probes, the receiver's port sets windows.
    pub fn watch(&mut self, port: &Port<'_>, watch: &Watch) -> Result<(), PortError> {
        let (sends, receives) = match port.part {
            Part::Client => (Data::FromClient, Data::Nobodys),
            Part::WebServer => (Data::FromServer, Data::Nobodys),
            Part::Receiver => (Data::Nobodys, Data::FromBoth),
        };
        let settings = Settings {
            policy: uc_law::watch_policy(watch, &Settings::default().policy),
            sends,
            receives,
            per_second: NO_LIMIT,
            burst: NO_LIMIT,
        };
        let watched = self
            .programs
            .watch(port.ifindex, &settings, AttachVia::Auto)?;
        self.watched.push(watched);
        Ok(())
    }

    /// Returns the programs' event counts by label, `watch_` in front; none if they are unreadable.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let events = self.programs.events().unwrap_or_default();
        events
            .iter()
            .map(|(event, count)| (format!("watch_{}", event.label()), count))
            .collect()
    }
}

impl Drop for LiveStarts {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(holder) = self.holder.take() {
            // An error of the thread is dropped: the ports go, and nothing else depends on it.
            let _ended = holder.join();
        }
    }
}
