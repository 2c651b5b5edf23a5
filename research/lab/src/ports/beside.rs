//! What works beside the programs of a lab's ports: a thread that holds packets (`uc hold`), and one that
//! sends duplicate ACKs (`uc dupack`). Nothing is pinned, so both end with the run.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uc_core::dupack::Policy;
use uc_experiment::Dupack;
use uc_hold::Holder;
use uc_hold::dupack::{PortSetup, Setup};
use uc_hold_core::Settings;
use uc_port::{Programs, Source};

use super::Port;
use crate::error::PortError;

/// A thread ends by itself only if it panics.
const ENDED: &str = "its thread has panicked";

/// Counters by name.
type Counts = Vec<(String, u64)>;

/// A question to a thread, with the place of the answer.
enum Ask<S> {
    /// Work at this port, too.
    Serve(S, Sender<Result<(), PortError>>),
    /// What was done so far?
    Count(Sender<Result<Counts, PortError>>),
}

/// A thread that works at ports with settings `S`. Dropping it ends the thread.
struct Worker<S> {
    asks: Option<Sender<Ask<S>>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Send + 'static> Worker<S> {
    /// Starts the thread in the caller's network namespace.
    fn start(
        name: &str,
        work: impl FnOnce(Receiver<Ask<S>>) + Send + 'static,
    ) -> Result<Self, PortError> {
        let (asks, asked) = mpsc::channel();
        let thread = thread::Builder::new().name(name.into());
        Ok(Self {
            asks: Some(asks),
            thread: Some(thread.spawn(move || work(asked))?),
        })
    }

    fn serve(&self, port: S) -> Result<(), PortError> {
        self.ask(|reply| Ask::Serve(port, reply)).ok_or(ENDED)?
    }

    /// Returns the counters, or why the thread can't work any more.
    fn counts(&self) -> Result<Counts, PortError> {
        self.ask(Ask::Count).ok_or(ENDED)?
    }

    fn ask<A>(&self, ask: impl FnOnce(Sender<A>) -> Ask<S>) -> Option<A> {
        let (reply, answer) = mpsc::channel();
        self.asks.as_ref()?.send(ask(reply)).ok()?;
        answer.recv().ok()
    }
}

impl<S> Drop for Worker<S> {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; the ports go, and nothing else depends on it.
            let _ended = thread.join();
        }
    }
}

/// The threads beside a run's ports, each from the first port that needs it on.
#[derive(Default)]
pub(super) struct Beside {
    holds: Option<Worker<(String, Settings)>>,
    dupacks: Option<Worker<PortSetup>>,
}

impl Beside {
    /// Begins what the port's case asks for; call it in the ports' namespace, once the port has its programs.
    pub fn serve(&mut self, port: &Port<'_>, programs: &Arc<Programs>) -> Result<(), PortError> {
        let source = Source::Own(Arc::clone(programs));
        if let Some(hold) = &port.hold {
            let task = (port.ifname.into(), hold.settings());
            let source = source.clone();
            serve(&mut self.holds, "uc-hold", task, |asked| {
                hold_packets(source, &asked);
            })?;
        }
        if let Some(dupack) = &port.dupack {
            serve(
                &mut self.dupacks,
                "uc-dupack",
                setup(port, dupack),
                |asked| {
                    send_dupacks(source, &asked);
                },
            )?;
        }
        Ok(())
    }

    /// Returns what was done, as `hold_…` and `dupack_…`.
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

/// Has a thread work at a port; starts the thread, which does `work`, for the first one.
fn serve<S: Send + 'static>(
    worker: &mut Option<Worker<S>>,
    name: &str,
    port: S,
    work: impl FnOnce(Receiver<Ask<S>>) + Send + 'static,
) -> Result<(), PortError> {
    let worker = match worker {
        Some(worker) => worker,
        None => worker.insert(Worker::start(name, work)?),
    };
    worker.serve(port)
}

/// Returns the settings of `uc dupack`.
fn setup(port: &Port<'_>, dupack: &Dupack) -> PortSetup {
    let time = |time: uc_experiment::Nanos| Duration::from_nanos(time.0);
    PortSetup::new(
        port.ifname,
        port.ifindex,
        dupack.least.map_or(Policy::LEAST, time),
        dupack.short_tails.map(time),
    )
}

/// Holds packets until nobody asks any more.
fn hold_packets(source: Source, asked: &Receiver<Ask<(String, Settings)>>) {
    let mut holder = None;
    let mut failed = None;
    loop {
        // A step waits for packets itself; without a holder there is only the next question.
        let ask = match &holder {
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => asked.recv_timeout(Duration::ZERO),
        };
        match ask {
            Ok(Ask::Serve((name, settings), reply)) => {
                let _unheard = reply.send(add(&mut holder, &source, &name, settings));
            }
            Ok(Ask::Count(reply)) => {
                let _unheard = reply.send(match failed.take() {
                    Some(error) => Err(error),
                    None => counts_of(holder.as_ref()),
                });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(Err(error)) = holder.as_mut().map(Holder::step) {
            (holder, failed) = (None, Some(error.into()));
        }
    }
}

fn counts_of(holder: Option<&Holder>) -> Result<Counts, PortError> {
    let counts = holder.map(Holder::counts).transpose()?;
    let named = counts.iter().flat_map(|counts| counts.named());
    Ok(named
        .map(|(name, count)| (format!("hold_{name}"), count))
        .collect())
}

fn add(
    holder: &mut Option<Holder>,
    source: &Source,
    name: &str,
    settings: Settings,
) -> Result<(), PortError> {
    let own = match holder.take() {
        Some(holder) => holder,
        None => Holder::new(source.clone())?,
    };
    Ok(holder.insert(own).add(name, settings)?)
}

/// Sends duplicate ACKs until nobody asks any more.
fn send_dupacks(source: Source, asked: &Receiver<Ask<PortSetup>>) {
    let mut sender = uc_hold::dupack::Sender::new(source);
    let mut setup = Setup::default();
    let mut walked = Ok(Duration::ZERO);
    loop {
        // After a walk that failed there is only the next question.
        let ask = match &walked {
            Ok(pause) => asked.recv_timeout(*pause),
            Err(_) => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match ask {
            Ok(Ask::Serve(port, reply)) => {
                setup.ports.push(port);
                sender.change(setup.clone());
                let refusal = sender.take_refusal();
                let _unheard = reply.send(refusal.map_or(Ok(()), |error| Err(error.into())));
            }
            Ok(Ask::Count(reply)) => {
                let total = sender.status(None).done.total();
                let counts = vec![
                    ("dupack_rounds".into(), total.rounds),
                    ("dupack_duplicate_acks".into(), total.duplicate_acks),
                ];
                let done = std::mem::replace(&mut walked, Ok(Duration::ZERO));
                let _unheard = reply.send(done.map(|_| counts).map_err(Into::into));
            }
            Err(RecvTimeoutError::Timeout) => walked = sender.walk(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
