//! Transfers at given times, each over a connection of its own: sent by the guest, or requested by
//! a receiver that connects to it, as a client does to a web server.

use super::Applications;
use super::progress::State;
use crate::error::SimError;
use crate::hosts::{Hosts, Side, Slot};
use crate::scenario::{Application, Epochs};

impl Applications {
    fn epochs(&self, number: usize) -> Option<&Epochs> {
        match &self.flows[number].plan.application {
            Application::Epochs(epochs) => Some(epochs),
            _ => None,
        }
    }

    /// Starts the next transfer, whether or not the one before it is complete.
    pub(super) fn next_epoch(&mut self, number: usize, hosts: &mut Hosts) -> Result<(), SimError> {
        let State::Epochs(begun) = &mut self.flows[number].state else {
            return Ok(());
        };
        *begun += 1;
        let begun = *begun;
        let Some(epochs) = self.epochs(number) else {
            return Ok(());
        };
        let (bytes, request_bytes) = (epochs.bytes, epochs.request_bytes);
        if let Some(&next) = epochs.turns.get(begun) {
            hosts.wake(number, next.max(hosts.now()));
        }
        match request_bytes {
            None => self.transfer(number, 0, bytes, hosts),
            Some(request_bytes) => self.ask(number, request_bytes, bytes, hosts),
        }
    }

    /// Opens a connection from the receiver and requests `bytes`.
    fn ask(
        &mut self,
        number: usize,
        request_bytes: u64,
        bytes: u64,
        hosts: &mut Hosts,
    ) -> Result<(), SimError> {
        let slot = self.open_from(Side::Receiver, number, 0, hosts)?;
        self.flows[number].serve(hosts.now(), bytes);
        hosts.write(slot, Side::Receiver, request_bytes);
        hosts.want(slot, Side::Guest, request_bytes);
        hosts.want(slot, Side::Receiver, bytes);
        Ok(())
    }

    /// Handles a request that has reached the guest, or a transfer that has reached its receiver.
    pub(super) fn epoch_reached(
        &mut self,
        number: usize,
        slot: Slot,
        side: Side,
        hosts: &mut Hosts,
    ) -> Result<(), SimError> {
        let (Side::Guest, Some(epochs)) = (side, self.epochs(number)) else {
            return self.transferred(number, slot, hosts);
        };
        hosts.write(slot, Side::Guest, epochs.bytes);
        hosts.finish(slot, Side::Guest);
        hosts.want_close(slot, Side::Guest);
        Ok(())
    }
}
