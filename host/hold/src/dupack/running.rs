//! The one process that sends duplicate ACKs in a network namespace.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uc_service::Served;

use crate::dupack::sender::Sender;
use crate::dupack::setup::Setup;
use crate::dupack::status::Status;
use crate::error::HoldError;
use crate::status::Key;

/// A sender that others can ask for its status. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Running {
    sender: Arc<Mutex<Sender>>,
    _status: Served,
}

fn locked(sender: &Mutex<Sender>) -> MutexGuard<'_, Sender> {
    sender.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Takes the network namespace's place, and begins. Ports at which no duplicate ACKs can be sent are
    /// refused, and do not affect others.
    ///
    /// # Errors
    /// [`HoldError::Service`]: another process has the place.
    pub fn start(setup: Setup) -> Result<Self, HoldError> {
        let place = Status::take_place()?;
        let sender = Arc::new(Mutex::new(Sender::default()));
        locked(&sender).change(setup);
        let seen = Arc::clone(&sender);
        let status = move |flow: Option<Key>| locked(&seen).status(flow);
        Ok(Self {
            sender,
            _status: Status::serve(place, status)?,
        })
    }

    /// Sends duplicate ACKs as this setup says, from now on. Ports that stay notice nothing.
    pub fn change(&self, setup: Setup) {
        locked(&self.sender).change(setup);
    }

    /// Tries again to send at ports that are refused.
    pub fn try_again(&self) {
        let mut sender = locked(&self.sender);
        if sender.is_refused() {
            sender.open();
        }
    }

    /// Returns why a port is refused, if one is, and forgets it.
    pub fn take_refusal(&self) -> Option<HoldError> {
        locked(&self.sender).take_refusal()
    }

    /// Returns the ports, and how much was sent.
    pub fn status(&self) -> Status {
        locked(&self.sender).status(None)
    }

    /// Walks through the flow table once, and sends what is due. Returns the time until the next walk.
    ///
    /// # Errors
    /// The kernel's refusal to read the table.
    pub fn walk(&self) -> Result<Duration, HoldError> {
        locked(&self.sender).walk()
    }
}
