//! What works beside the programs of a lab's ports: a thread that holds packets (`uc hold`), and one that
//! sends duplicate ACKs (`uc dupack`). Nothing is pinned, so both end with the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uc_core::dupack::Policy;
use uc_experiment::{Dupack, Hold};
use uc_hold::dupack::{self, Sender as DupackSender};
use uc_hold::{Holder, Ports, Work, Worker as PortWorker};
use uc_port::{Programs, Source};

use super::Port;
use crate::error::PortError;

/// Error text for a thread that no longer answers, as it has panicked.
const ENDED: &str = "its thread has panicked";

/// Counters by name.
type Counts = Vec<(String, u64)>;

/// A request to a thread, with the channel for its answer.
enum Ask<W: Work> {
    /// Work at this port, too.
    Serve(W::Port, Sender<Result<(), PortError>>),
    /// Report the counters.
    Count(Sender<Result<Counts, PortError>>),
}

/// A thread that does `W` at ports. Dropping it ends the thread.
struct Worker<W: Work> {
    asks: Option<Sender<Ask<W>>>,
    thread: Option<JoinHandle<()>>,
}

impl<W: Work + 'static> Worker<W>
where
    W::Port: Send,
{
    /// Starts the thread in the caller's network namespace; `counts` reads the counters.
    fn start(
        name: &str,
        source: Source,
        counts: fn(&PortWorker<W>) -> Result<Counts, PortError>,
    ) -> Result<Self, PortError> {
        let (asks, asked) = mpsc::channel();
        let thread = thread::Builder::new().name(name.into());
        let work = move || work(source, counts, &asked);
        Ok(Self {
            asks: Some(asks),
            thread: Some(thread.spawn(work)?),
        })
    }

    fn serve(&self, port: W::Port) -> Result<(), PortError> {
        self.ask(|reply| Ask::Serve(port, reply)).ok_or(ENDED)?
    }

    /// Returns the counters, or why the thread can't work any more.
    fn counts(&self) -> Result<Counts, PortError> {
        self.ask(Ask::Count).ok_or(ENDED)?
    }

    fn ask<A>(&self, ask: impl FnOnce(Sender<A>) -> Ask<W>) -> Option<A> {
        let (reply, answer) = mpsc::channel();
        self.asks.as_ref()?.send(ask(reply)).ok()?;
        answer.recv().ok()
    }
}

impl<W: Work> Drop for Worker<W> {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; the ports go, and nothing else depends on it.
            let _ended = thread.join();
        }
    }
}

/// The threads beside a run's ports, each started when the first port needs it.
#[derive(Default)]
pub(super) struct Beside {
    holds: Option<Worker<Holder>>,
    dupacks: Option<Worker<DupackSender>>,
}

impl Beside {
    /// Begins to hold packets or to send duplicate ACKs at `port`, as its settings say; call it in the ports'
    /// namespace, once the port has its programs.
    pub fn serve(&mut self, port: &Port<'_>, programs: &Arc<Programs>) -> Result<(), PortError> {
        let source = Source::Own(Arc::clone(programs));
        if let Some(hold) = &port.hold {
            let source = source.clone();
            let worker = started(&mut self.holds, || {
                Worker::start("uc-hold", source, hold_counts)
            })?;
            worker.serve(hold_setup(port, hold))?;
        }
        if let Some(dupack) = &port.dupack {
            let worker = started(&mut self.dupacks, || {
                Worker::start("uc-dupack", source, dupack_counts)
            })?;
            worker.serve(dupack_setup(port, dupack))?;
        }
        Ok(())
    }

    /// Returns the counters of the threads, named `hold_…` and `dupack_…`.
    ///
    /// # Errors
    /// Why a thread could not go on.
    pub fn counters(&self) -> Result<Counts, PortError> {
        let mut all = Counts::new();
        if let Some(holds) = &self.holds {
            all.extend(holds.counts()?);
        }
        if let Some(dupacks) = &self.dupacks {
            all.extend(dupacks.counts()?);
        }
        Ok(all)
    }
}

/// Returns the worker, which `start` starts for the first port.
fn started<W: Work>(
    worker: &mut Option<Worker<W>>,
    start: impl FnOnce() -> Result<Worker<W>, PortError>,
) -> Result<&Worker<W>, PortError> {
    Ok(match worker {
        Some(worker) => worker,
        None => worker.insert(start()?),
    })
}

/// Returns the settings of `uc hold`.
fn hold_setup(port: &Port<'_>, hold: &Hold) -> uc_hold::PortSetup {
    let settings = hold.settings();
    let least = |buffer: uc_hold_core::Buffer| Duration::from_nanos(buffer.least_timeout_ns);
    uc_hold::PortSetup::new(
        port.ifname,
        port.ifindex,
        settings.pace,
        settings.buffer.map(least),
        settings.bytes_max as u64,
    )
}

/// Returns the settings of `uc dupack`.
fn dupack_setup(port: &Port<'_>, dupack: &Dupack) -> dupack::PortSetup {
    let time = |time: uc_experiment::Nanos| Duration::from_nanos(time.0);
    dupack::PortSetup::new(
        port.ifname,
        port.ifindex,
        dupack.least.map_or(Policy::LEAST, time),
        dupack.short_tails.map(time),
    )
}

fn hold_counts(worker: &PortWorker<Holder>) -> Result<Counts, PortError> {
    let counts = worker.work().counts()?;
    let named = counts.named();
    Ok(named
        .map(|(name, count)| (format!("hold_{name}"), count))
        .collect())
}

fn dupack_counts(worker: &PortWorker<DupackSender>) -> Result<Counts, PortError> {
    let total = worker.status(None).done.total();
    Ok(vec![
        ("dupack_rounds".into(), total.rounds),
        ("dupack_duplicate_acks".into(), total.duplicate_acks),
    ])
}

/// Works at ports and answers requests, until the sender of requests is dropped.
fn work<W: Work>(
    source: Source,
    counts: fn(&PortWorker<W>) -> Result<Counts, PortError>,
    asked: &Receiver<Ask<W>>,
) {
    let mut worker = match PortWorker::<W>::new(source, BTreeMap::new) {
        Ok(worker) => worker,
        Err(error) => {
            if let Ok(Ask::Serve(_, reply)) = asked.recv() {
                let _unheard = reply.send(Err(error.into()));
            }
            return;
        }
    };
    let mut setup = Ports::default();
    let mut stepped = Ok(Duration::ZERO);
    loop {
        // After an error there is only the next question.
        let ask = match &stepped {
            Ok(pause) => asked.recv_timeout(*pause),
            Err(_) => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match ask {
            Ok(Ask::Serve(port, reply)) => {
                setup.ports.push(port);
                let changed = worker.change(setup.clone());
                let refusal = worker.take_refusal();
                let served = changed.and_then(|()| refusal.map_or(Ok(()), Err));
                let _unheard = reply.send(served.map_err(Into::into));
            }
            Ok(Ask::Count(reply)) => {
                let failed = std::mem::replace(&mut stepped, Ok(Duration::ZERO)).err();
                let failed = failed.or_else(|| worker.take_refusal());
                let _unheard =
                    reply.send(failed.map_or_else(|| counts(&worker), |error| Err(error.into())));
            }
            Err(RecvTimeoutError::Timeout) => stepped = worker.step(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
