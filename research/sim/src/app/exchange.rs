//! Requests and responses over one connection: each flow independently, or all flows of a group at
//! once behind a barrier (incast).

use super::Applications;
use super::progress::{Dialogue, State};
use crate::hosts::{Hosts, Side, Slot};
use crate::scenario::{Application, Exchange};

impl Applications {
    fn exchange(&self, number: usize) -> Option<&Exchange> {
        match &self.flows[number].plan.application {
            Application::Exchange(exchange) => Some(exchange),
            _ => None,
        }
    }

    fn dialogue(&mut self, number: usize) -> Option<&mut Dialogue> {
        match &mut self.flows[number].state {
            State::Dialogue(dialogue) => Some(dialogue),
            _ => None,
        }
    }

    /// Sends the first request as soon as the receiver may send: when its side of the handshake is
    /// complete.
    pub(super) fn dialogue_established(
        &mut self,
        number: usize,
        slot: Slot,
        side: Side,
        hosts: &mut Hosts,
    ) {
        let Some(exchange) = self.exchange(number) else {
            return;
        };
        match side {
            Side::Guest => hosts.want(slot, side, exchange.request_bytes),
            Side::Receiver => self.dialogue_ready(number, hosts),
        }
    }

    /// Marks this flow as ready for the next round, which begins when all flows of its barrier are ready.
    fn dialogue_ready(&mut self, number: usize, hosts: &mut Hosts) {
        let Some(barrier) = self.exchange(number).and_then(|exchange| exchange.barrier) else {
            self.dialogue_ask(number, hosts);
            return;
        };
        let barrier = &mut self.barriers[barrier];
        barrier.ready += 1;
        if barrier.ready < barrier.members.len() {
            return;
        }
        barrier.ready = 0;
        // Sending requests changes no member, so the list can be moved out meanwhile.
        let members = std::mem::take(&mut barrier.members);
        for &member in &members {
            self.dialogue_ask(member, hosts);
        }
        if let Some(of) = self.exchange(number).and_then(|exchange| exchange.barrier) {
            self.barriers[of].members = members;
        }
    }

    /// Sends the next request of a flow's receiver.
    pub(super) fn dialogue_ask(&mut self, number: usize, hosts: &mut Hosts) {
        let Some(exchange) = self.exchange(number).cloned() else {
            return;
        };
        let Some(&(slot, _)) = self.flows[number].open.first() else {
            return;
        };
        let Some(dialogue) = self.dialogue(number) else {
            return;
        };
        dialogue.asked += 1;
        let wanted_bytes = exchange.response_bytes * u64::from(dialogue.asked);
        self.flows[number].begin_completion(hosts.now(), exchange.response_bytes);
        hosts.want(slot, Side::Receiver, wanted_bytes);
        hosts.write(slot, Side::Receiver, exchange.request_bytes);
    }

    /// Handles a request that has reached the guest, or a response that has reached the receiver.
    pub(super) fn dialogue_reached(
        &mut self,
        number: usize,
        slot: Slot,
        side: Side,
        hosts: &mut Hosts,
    ) {
        let Some(exchange) = self.exchange(number).cloned() else {
            return;
        };
        let Some(dialogue) = self.dialogue(number) else {
            return;
        };
        if side == Side::Guest {
            let next = u64::from(dialogue.asked) + 1;
            hosts.want(slot, side, exchange.request_bytes * next);
            hosts.write(slot, side, exchange.response_bytes);
            return;
        }
        dialogue.answered += 1;
        let answered = dialogue.answered;
        self.flows[number].complete(answered as usize - 1, hosts.now());
        if answered == exchange.rounds {
            for side in [Side::Guest, Side::Receiver] {
                hosts.finish(slot, side);
                hosts.want_close(slot, side);
            }
        } else if exchange.gap.0 > 0 {
            hosts.wake(number, hosts.now() + exchange.gap);
        } else {
            self.dialogue_ready(number, hosts);
        }
    }
}
