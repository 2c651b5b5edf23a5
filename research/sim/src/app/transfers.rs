//! Transfers over connections of their own: without end, or of a size; one to each of a flow's
//! receivers, a few at a time, or at times of a list.

use super::Applications;
use super::progress::State;
use crate::error::SimError;
use crate::hosts::{Hosts, Side, Slot};
use crate::scenario::Application;

impl Applications {
    /// Opens a connection and sends as much as TCP takes, until the flow's end if it has one.
    pub(super) fn bulk(&mut self, number: usize, hosts: &mut Hosts) -> Result<(), SimError> {
        let slot = self.open(number, 0, hosts)?;
        hosts.write(slot, Side::Guest, u64::MAX);
        if let Some(stop) = self.flows[number].plan.stop {
            hosts.wake(number, stop.max(hosts.now()));
        }
        Ok(())
    }

    /// Ends a bulk flow: the guest writes no more, data in flight arrives, and both sides close.
    pub(super) fn stop_bulk(&mut self, number: usize, hosts: &mut Hosts) {
        let flow = &mut self.flows[number];
        flow.stopped = true;
        let Some(slot) = flow.open().next() else {
            return;
        };
        hosts.stop(slot, Side::Guest);
        hosts.finish(slot, Side::Receiver);
        for side in [Side::Guest, Side::Receiver] {
            hosts.want_close(slot, side);
        }
    }

    /// Starts a flow's first transfers, as many as may run in parallel.
    pub(super) fn transfers(&mut self, number: usize, hosts: &mut Hosts) -> Result<(), SimError> {
        let parallel = match self.flows[number].plan.application {
            Application::Transfer { parallel, .. } => parallel.max(1),
            _ => 0,
        };
        for _ in 0..parallel {
            self.next_transfer(number, hosts)?;
        }
        Ok(())
    }

    /// Starts the transfer to the next receiver, if there is one left.
    fn next_transfer(&mut self, number: usize, hosts: &mut Hosts) -> Result<(), SimError> {
        let flow = &mut self.flows[number];
        let (State::Transfers(begun), &Application::Transfer { bytes, .. }) =
            (&mut flow.state, &flow.plan.application)
        else {
            return Ok(());
        };
        let receiver = *begun;
        if receiver == flow.plan.receivers.len() {
            return Ok(());
        }
        *begun += 1;
        self.transfer(number, receiver, bytes, hosts)
    }

    /// Starts the transfer of a list that is due, and waits for the time of the next.
    pub(super) fn next_listed(&mut self, number: usize, hosts: &mut Hosts) -> Result<(), SimError> {
        let flow = &mut self.flows[number];
        let (State::Transfers(begun), Application::List(list)) =
            (&mut flow.state, &flow.plan.application)
        else {
            return Ok(());
        };
        let receiver = *begun;
        let Some(&(_, bytes)) = list.get(receiver) else {
            return Ok(());
        };
        *begun += 1;
        if let Some(&(next, _)) = list.get(*begun) {
            hosts.wake(number, next.max(hosts.now()));
        }
        self.transfer(number, receiver, bytes, hosts)
    }

    /// Opens a new connection and sends `bytes` over it.
    pub(super) fn transfer(
        &mut self,
        number: usize,
        receiver: usize,
        bytes: u64,
        hosts: &mut Hosts,
    ) -> Result<(), SimError> {
        let slot = self.open(number, receiver, hosts)?;
        let ideal_ns = Some(hosts.ideal(slot, bytes).0);
        self.flows[number].serve(hosts.now(), bytes);
        if let Some(transfer) = self.flows[number].completions.last_mut() {
            transfer.ideal_ns = ideal_ns;
        }
        hosts.write(slot, Side::Guest, bytes);
        hosts.finish(slot, Side::Guest);
        hosts.want(slot, Side::Receiver, bytes);
        hosts.want_close(slot, Side::Guest);
        Ok(())
    }

    /// Completes a transfer that the receiver has in full.
    pub(super) fn transferred(
        &mut self,
        number: usize,
        slot: Slot,
        hosts: &mut Hosts,
    ) -> Result<(), SimError> {
        let flow = &mut self.flows[number];
        flow.complete(flow.completion_of(slot), hosts.now());
        hosts.finish(slot, Side::Receiver);
        hosts.want_close(slot, Side::Receiver);
        self.next_transfer(number, hosts)
    }
}
