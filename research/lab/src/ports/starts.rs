//! The start `watch` on a lab's ports: the watch programs, a thread that holds handshakes, and one that grants
//! first windows, which the holder asks by datagrams within the hosts' namespace.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use uc_core::watch::StartPolicy;
use uc_experiment::{BitsPerSec, Watch};
use uc_port::AttachVia;
use uc_watch::{
    Asker, Data, Granted, GranterHost, Holder, Injector, ProbeKey, Programs, Settings, WatchError,
    Watched,
};

use super::{Part, Port};
use crate::error::PortError;

/// The prefixes of the guests' addresses in every lab.
const PEERS: [&str; 2] = ["10.77.0.0/16", "fd77::/64"];
/// The probe key of the lab's hosts. It need not be secret: all of them are in this process.
const KEY: [u8; 16] = *b"this lab's hosts";
/// Address of the granter; the namespace of a run's hosts is new.
const GRANTER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6654);
/// The limit of held handshakes, per second and in a burst: more than a case has.
const NO_LIMIT: u32 = 1_000_000;

/// The watch programs on a run's ports and the thread that holds handshakes. Nothing is pinned, so
/// both end with the run.
pub(super) struct LiveStarts {
    programs: Arc<Programs>,
    watched: Vec<Watched>,
    stop: Arc<AtomicBool>,
    holder: Option<JoinHandle<Result<(), WatchError>>>,
    granter: Option<JoinHandle<Granted>>,
}

impl LiveStarts {
    /// Loads the programs, starts the holding thread, and the granter if there is one; call it in the hosts'
    /// namespace.
    pub fn begin(watch: &Watch, grants: Option<BitsPerSec>) -> Result<Self, PortError> {
        let stop = Arc::new(AtomicBool::new(false));
        let policy = policy(watch);
        let key = ProbeKey::from_bytes(KEY);
        let asker = grants.map(|_| Asker::new(GRANTER, key.into(), policy));
        let asker = asker.transpose()?.map(Asker::silent);
        let programs = Arc::new(Programs::load(key)?);
        for peer in PEERS {
            programs.add_peer(peer.parse()?)?;
        }
        let injector = Injector::new(&programs)?;
        let (held, stopping) = (Arc::clone(&programs), Arc::clone(&stop));
        let holder = thread::Builder::new()
            .name("uc-holder".into())
            .spawn(move || {
                let holder = Holder::new(&held, &injector).asking(asker.as_ref());
                holder.run(&|| stopping.load(Ordering::Relaxed))
            })?;
        let mut starts = Self {
            programs,
            watched: Vec::new(),
            stop,
            holder: Some(holder),
            granter: None,
        };
        if let Some(rate) = grants {
            starts.granter = Some(granter(policy, rate, &starts.stop)?);
        }
        Ok(starts)
    }

    /// Attaches the programs to one port: a guest's port probes, the receiver's port sets windows.
    pub fn watch(&mut self, port: &Port<'_>, watch: &Watch) -> Result<(), PortError> {
        let (sends, receives) = match port.part {
            Part::Client => (Data::FromClient, Data::Nobodys),
            Part::WebServer => (Data::FromServer, Data::Nobodys),
            Part::Receiver => (Data::Nobodys, Data::FromBoth),
        };
        let settings = Settings {
            policy: policy(watch),
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

    /// Returns the programs' event counts by label, `watch_` in front. Ends the granter, whose counts follow as
    /// `granter_…`. An error if a thread ended before, since handshakes have passed without it.
    pub fn counters(&mut self) -> Result<Vec<(String, u64)>, PortError> {
        if self.holder.as_ref().is_some_and(JoinHandle::is_finished) {
            return Err(
                "the thread that holds handshakes for `start_law` has ended early; run again"
                    .into(),
            );
        }
        let events = self.programs.events()?;
        let events = events.iter();
        let mut counters: Vec<_> = events
            .map(|(event, count)| (format!("watch_{}", event.label()), count))
            .collect();
        if let Some(granter) = self.granter.take() {
            self.stop.store(true, Ordering::Relaxed);
            let granted = granter.join();
            let granted = granted.map_err(|_| "the thread of `grants` has panicked; run again")?;
            counters.push(("granter_granted".into(), granted.granted));
            counters.push(("granter_waited".into(), granted.waited));
        }
        Ok(counters)
    }
}

fn policy(watch: &Watch) -> StartPolicy {
    uc_law::watch_policy(watch, &Settings::default().policy)
}

/// Starts a thread that grants first windows at this rate until `stop` is set.
fn granter(
    policy: StartPolicy,
    rate: BitsPerSec,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<Granted>, PortError> {
    let policy = StartPolicy {
        pace_bytes_per_s: rate.0 / 8,
        ..policy
    };
    let host = GranterHost::new(GRANTER, ProbeKey::from_bytes(KEY).into(), policy)?;
    let stop = Arc::clone(stop);
    let thread = thread::Builder::new().name("uc-granter".into());
    Ok(thread.spawn(move || host.run(|| stop.load(Ordering::Relaxed)))?)
}

impl Drop for LiveStarts {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(holder) = self.holder.take() {
            // An error of the thread is dropped: the ports go, and nothing else depends on it.
            let _ended = holder.join();
        }
        if let Some(granter) = self.granter.take() {
            let _granted = granter.join();
        }
    }
}
