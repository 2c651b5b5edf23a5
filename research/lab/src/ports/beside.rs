//! What works beside the programs of a lab's ports: a thread that holds packets (`uc hold`), and one that
//! sends duplicate ACKs (`uc dupack`). Nothing is pinned, so both end with the run.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uc_dupack::{PortSetup, Setup};
use uc_experiment::{Dupack, Hold};
use uc_hold::{Buffer, Settings};
use uc_holder::Holder;
use uc_port::{Programs, Source};

use super::Port;
use crate::error::PortError;

/// Usual minimum RTO of a host that keeps data, and shortest silence before duplicate ACKs.
const LEAST_TIMEOUT: Duration = Duration::from_millis(10);
const LEAST_SILENCE: Duration = Duration::from_millis(5);

/// Counters by name.
type Counts = Vec<(String, u64)>;

/// A question to a thread, with the place of the answer.
enum Ask<S> {
    /// Work at this port, too.
    Serve(S, Sender<Result<(), PortError>>),
    /// What was done so far?
    Count(Sender<Counts>),
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
        self.ask(|reply| Ask::Serve(port, reply))
            .ok_or("the thread beside the ports has ended")?
    }

    /// Returns the counters; none if the thread has ended.
    fn counts(&self) -> Counts {
        self.ask(Ask::Count).unwrap_or_default()
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
        let source = || Source::Own(Arc::clone(programs));
        if let Some(hold) = &port.hold {
            let worker = match self.holds.take() {
                Some(worker) => worker,
                None => {
                    let source = source();
                    Worker::start("uc-hold", move |asked| hold_packets(source, &asked))?
                }
            };
            let served = worker.serve((port.ifname.into(), settings(hold)));
            self.holds = Some(worker);
            served?;
        }
        if let Some(dupack) = &port.dupack {
            let worker = match self.dupacks.take() {
                Some(worker) => worker,
                None => {
                    let source = source();
                    Worker::start("uc-dupack", move |asked| send_dupacks(source, &asked))?
                }
            };
            let served = worker.serve(setup(port, dupack));
            self.dupacks = Some(worker);
            served?;
        }
        Ok(())
    }

    /// Returns what was done, as `hold_…` and `dupack_…`.
    pub fn counters(&self) -> Counts {
        let of_holds = self.holds.iter().flat_map(Worker::counts);
        of_holds
            .chain(self.dupacks.iter().flat_map(Worker::counts))
            .collect()
    }
}

/// Returns the settings of `uc hold`.
fn settings(hold: &Hold) -> Settings {
    let least = |least: uc_experiment::Nanos| least.0;
    Settings {
        pace: hold.pace,
        buffer: hold.buffer.map(|buffer| Buffer {
            least_timeout_ns: buffer
                .least_timeout
                .map_or(LEAST_TIMEOUT.as_nanos() as u64, least),
        }),
        bytes_max: Settings::BYTES_MAX,
    }
}

/// Returns the settings of `uc dupack`.
fn setup(port: &Port<'_>, dupack: &Dupack) -> PortSetup {
    let time = |time: uc_experiment::Nanos| Duration::from_nanos(time.0);
    PortSetup::new(
        port.ifname,
        port.ifindex,
        dupack.least.map_or(LEAST_SILENCE, time),
        dupack.short_tails.map(time),
    )
}

/// Holds packets until nobody asks any more.
fn hold_packets(source: Source, asked: &Receiver<Ask<(String, Settings)>>) {
    let mut holder = None;
    loop {
        // Only the first port is waited for: from then on a step waits for packets itself.
        let ask = match &holder {
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => asked.recv_timeout(Duration::ZERO),
        };
        match ask {
            Ok(Ask::Serve((name, settings), reply)) => {
                let _unheard = reply.send(add(&mut holder, &source, &name, settings));
            }
            Ok(Ask::Count(reply)) => {
                let counts = holder.as_ref().and_then(|holder| holder.counts().ok());
                let named = counts.iter().flat_map(|counts| counts.named());
                let named = named.map(|(name, count)| (format!("hold_{name}"), count));
                let _unheard = reply.send(named.collect());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Without a holder that works the counters are missing, and with them what the case asks for.
        if holder.as_mut().is_some_and(|holder| holder.step().is_err()) {
            return;
        }
    }
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
    let mut sender = uc_dupack::Sender::new(source);
    let mut setup = Setup::default();
    let mut pause = Duration::ZERO;
    loop {
        match asked.recv_timeout(pause) {
            Ok(Ask::Serve(port, reply)) => {
                setup.ports.push(port);
                sender.change(setup.clone());
                let refusal = sender.take_refusal();
                let _unheard = reply.send(refusal.map_or(Ok(()), |error| Err(error.into())));
            }
            Ok(Ask::Count(reply)) => {
                let total = sender.status(None).done.total();
                let _unheard = reply.send(vec![
                    ("dupack_rounds".into(), total.rounds),
                    ("dupack_duplicate_acks".into(), total.duplicate_acks),
                ]);
            }
            Err(RecvTimeoutError::Timeout) => match sender.walk() {
                Ok(next) => pause = next,
                Err(_refused) => return,
            },
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
