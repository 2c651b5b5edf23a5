//! The receivers' side of a case alone, for flows whose senders are elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use crate::arriving::Arriving;
use crate::error::LabError;
use crate::event::Event;
use crate::flow::tuples;
use crate::incast::Rounds;
use crate::load::Running;
use crate::plan::Plan;
use crate::receiver;
use crate::traffic::{receive, threads_gone};
use crate::wiring::Wiring;

/// The running receiver of every flow of a plan. Dropping it resets the connections.
#[derive(Debug)]
pub struct Reception {
    flows: Vec<Expected>,
    stop: Arc<AtomicBool>,
    receiver: receiver::Handle,
    events: Receiver<Event>,
    rounds: Arc<Rounds>,
}

/// A flow whose connection is expected.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Identity of the flow.
    pub running: Running,
    delivered_bytes: Arc<AtomicU64>,
}

impl Expected {
    /// Returns the payload delivered to the receiving application so far.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes.load(Ordering::Relaxed)
    }
}

impl Reception {
    /// Starts listening at the receivers for every flow of `plan`.
    ///
    /// # Errors
    /// [`LabError::Socket`], a missing congestion control, or [`LabError::Resource`].
    pub fn start(plan: &Plan, wiring: &Wiring) -> Result<Self, LabError> {
        let flows = expected(plan);
        let receivers = flows.iter().map(|flow| receiver::Expected {
            from: flow.running.tuple.source,
            guest: plan.guests[flow.running.guest].label.clone(),
            may_end: false,
            delivered_bytes: Arc::clone(&flow.delivered_bytes),
            times: None,
        });
        let receivers = receivers.collect();
        let (sender, events) = mpsc::channel();
        let (stop, pattern) = (Arc::default(), Arc::default());
        let rounds = Arc::default();
        let receiver = receive(
            plan,
            wiring,
            (receivers, Arriving::default()),
            &pattern,
            &stop,
            &sender,
            &rounds,
        )?;
        Ok(Self {
            flows,
            stop,
            receiver,
            events,
            rounds,
        })
    }

    /// Returns the flows, in the record's order.
    pub fn flows(&self) -> &[Expected] {
        &self.flows
    }

    /// Returns the counters of the incast rounds.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        self.rounds.counters()
    }

    /// Checks that all payload was correct and no flow has ended.
    ///
    /// # Errors
    /// [`LabError::Ended`], or the position at which the stream is corrupt.
    pub fn check(&self) -> Result<(), LabError> {
        match self.events.try_recv() {
            Ok(Event::Failed(error)) => Err(error),
            Ok(Event::Connected { .. }) | Err(TryRecvError::Empty) => Ok(()),
            Err(TryRecvError::Disconnected) if self.stop.load(Ordering::Relaxed) => Ok(()),
            Err(TryRecvError::Disconnected) => Err(threads_gone()),
        }
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.receiver.stop();
    }
}

fn expected(plan: &Plan) -> Vec<Expected> {
    let mut tuples = tuples(plan).into_iter();
    let mut flows = Vec::with_capacity(plan.flow_count());
    for (number, guest) in plan.guests.iter().enumerate() {
        for part in &guest.parts {
            let of_part = (part.first..).zip(tuples.by_ref().take(part.flows as usize));
            flows.extend(of_part.map(|(index, tuple)| Expected {
                running: Running {
                    guest: number,
                    group: part.group.clone(),
                    index,
                    tuple,
                },
                delivered_bytes: Arc::default(),
            }));
        }
    }
    flows
}
