//! The one process that does a kind of [`Work`] in a network namespace: it works as its newest setup says, and
//! answers those who ask for its status.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use uc_port::Source;
use uc_service::commands::Key;
use uc_service::{PortTask, Ports, Served, Status};

use crate::error::HoldError;
use crate::work::{Reserved, Work, Worker};

/// Longest time for which a step waits, so that the caller can look for a new setup and for its end.
const WAIT_MOST: Duration = Duration::from_millis(50);

/// What a process answers.
type Answer<W> = Status<Ports<<W as Work>::Port>, <<W as Work>::Port as PortTask>::Done>;

/// Asks the process for its status, and what was done for a flow. The thread that asks waits for the answer.
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
    /// Takes the network namespace's place, and begins. Ports at which it can't work are refused, and do not
    /// affect others.
    ///
    /// # Errors
    /// [`HoldError::Service`]: another process has the place; or the kernel's refusal.
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

    /// Works as this setup says, from now on. Ports that stay notice nothing.
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

    /// Returns the worker.
    pub fn worker(&mut self) -> &mut Worker<W> {
        &mut self.worker
    }

    /// Ends in order.
    pub fn finish(mut self) -> Result<(), HoldError> {
        self.worker.finish()
    }
}
