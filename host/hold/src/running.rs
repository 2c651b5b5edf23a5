//! The one process that does a kind of [`Work`] in a network namespace: it works as its newest setup says, and
//! answers those who ask for its status.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use uc_port::Source;
use uc_service::commands::Key;
use uc_service::{PortTask, Ports, Served, Status};

use crate::error::HoldError;
use crate::work::{Reserved, Work, Worker};

/// Maximum time for which a step waits, so that the caller can check for a new setup and whether it is to end.
const WAIT_MOST: Duration = Duration::from_millis(50);

/// The status that the process reports: its ports and counters.
type Answer<W> = Status<Ports<<W as Work>::Port>, <<W as Work>::Port as PortTask>::Done>;

/// A request for the process's status, and for the report on a flow if one is named. The thread that asks waits for
/// the answer.
type Question<W> = (Option<Key>, Sender<Answer<W>>);

/// A worker that others can ask for its status. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Running<W: Work> {
    worker: Worker<W>,
    // Dropped before the thread that asks: it ends, since nobody would answer.
    questions: Receiver<Question<W>>,
    _status: Served,
}

impl<W: Work> Running<W>
where
    W::Port: Send + 'static,
    <W::Port as PortTask>::Done: Default + Send + 'static,
{
    /// Begins the work, as the only process of its kind in the network namespace. Ports at which the work can't be
    /// done are refused, and do not affect others.
    ///
    /// # Errors
    /// [`HoldError::Service`] if another such process runs in the namespace; the kernel's refusal.
    pub fn start(setup: Ports<W::Port>, reserved: Reserved) -> Result<Self, HoldError> {
        let place = Answer::<W>::take_place()?;
        let worker = Worker::new(Source::Pins, reserved)?;
        let (asks, questions) = mpsc::channel::<Question<W>>();
        let status = Answer::<W>::serve(place, move |flow| {
            let (reply, answer) = mpsc::channel();
            let asked = asks.send((flow, reply));
            // The process has ended meanwhile.
            let answer = asked.ok().and_then(|()| answer.recv().ok());
            answer.unwrap_or_default()
        })?;
        let mut running = Self {
            worker,
            questions,
            _status: status,
        };
        running.worker.change(setup)?;
        Ok(running)
    }

    /// Applies this setup from now on. Work at ports whose settings stay the same goes on without a break.
    ///
    /// # Errors
    /// The process cannot go on.
    pub fn change(&mut self, setup: Ports<W::Port>) -> Result<(), HoldError> {
        self.worker.change(setup)
    }

    /// Does all that is due, answers questions, and waits until more is due, for 50 ms at most.
    ///
    /// # Errors
    /// The process cannot go on. [`Running::finish`] then still ends in order.
    pub fn step(&mut self) -> Result<(), HoldError> {
        let pause = self.worker.step()?.min(WAIT_MOST);
        let mut question = self.questions.recv_timeout(pause);
        while let Ok((flow, reply)) = question {
            let _gone = reply.send(self.worker.status(flow));
            question = self.questions.recv_timeout(Duration::ZERO);
        }
        if question.is_err_and(|error| error == RecvTimeoutError::Disconnected) {
            std::thread::sleep(pause);
        }
        Ok(())
    }

    /// Returns the worker that handles the ports' packets.
    pub fn worker(&mut self) -> &mut Worker<W> {
        &mut self.worker
    }

    /// Ends the work in order ([`Work::finish`]).
    pub fn finish(mut self) -> Result<(), HoldError> {
        self.worker.finish()
    }
}
