//! The start `watch` on a lab's ports: the watch programs, and a thread that holds handshakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use uc_core::watch::StartPolicy;
use uc_experiment::{Nanos, Watch};
use uc_lab::{Part, Port, PortError};
use uc_port::AttachVia;
use uc_watch::{Data, Holder, Injector, ProbeKey, Programs, Settings, WatchError, Watched};

/// The guests of every lab.
const PEERS: [&str; 2] = ["10.77.0.0/24", "fd77::/64"];
/// Its hosts are one process: nobody else needs to know their key.
const KEY: [u8; 16] = *b"this lab's hosts";
/// All handshakes of a case at once, and no end to them.
const NO_LIMIT: u32 = 1_000_000;
/// User space can't keep to less: probes' own default in microseconds.
const SPAN_US: u32 = 500;

/// Programs on ports, and their holder. Nothing is pinned: it ends with the run.
pub struct LiveStarts {
    programs: Arc<Programs>,
    watched: Vec<Watched>,
    stop: Arc<AtomicBool>,
    holder: Option<JoinHandle<Result<(), WatchError>>>,
}

impl LiveStarts {
    /// In the hosts' namespace.
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

    /// One port: a guest's host probes, the receiver's sets windows.
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

    /// What became of handshakes and probes.
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
            // The ports are going: whatever kept it from its end keeps nobody else.
            let _ended = holder.join();
        }
    }
}

/// The file's numbers, and the core's own where it has none.
fn policy(watch: &Watch) -> StartPolicy {
    let usual = StartPolicy::usual();
    let us = |time: Option<Nanos>, otherwise| {
        time.map_or(otherwise, |time| {
            u32::try_from(time.0.div_ceil(1_000)).unwrap_or(u32::MAX)
        })
    };
    StartPolicy {
        probes: watch.probes.unwrap_or(usual.probes),
        least_segments: watch.least.unwrap_or(usual.least_segments),
        rounds: watch.rounds.unwrap_or(usual.rounds),
        observe: watch.observe.into(),
        span_us: us(watch.span, SPAN_US),
        fresh_us: us(watch.fresh, usual.fresh_us),
        idle_us: us(watch.idle, usual.idle_us),
        wait_us: us(watch.wait, usual.wait_us),
        burst_bytes: watch.burst.map_or(usual.burst_bytes, |bytes| bytes.0),
        late_ns: watch.late.map_or(usual.late_ns, |late| late.0 as u32),
        span_part: watch.part.unwrap_or(usual.span_part),
        marked_part: watch.marked_part.unwrap_or(usual.marked_part),
        pad: [0; 2],
        pace_bytes_per_s: watch.pace.map_or(usual.pace_bytes_per_s, |rate| rate.0 / 8),
    }
}
