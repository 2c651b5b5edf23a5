//! Messages over connections that stay open: at fixed times, or each once the one before it has
//! arrived. Several may be in flight on one connection; they arrive in order.

use std::collections::VecDeque;

use super::Applications;
use super::progress::{Channel, State};
use crate::error::SimError;
use crate::hosts::{Hosts, Side, Slot};
use crate::scenario::Application;

impl Applications {
    /// Opens the connections, and sends the first message.
    pub(super) fn messages_open(
        &mut self,
        number: usize,
        hosts: &mut Hosts,
    ) -> Result<(), SimError> {
        for receiver in 0..self.flows[number].plan.receivers.len() {
            let slot = self.open(number, receiver, hosts)?;
            if let State::Messages(channels) = &mut self.flows[number].state {
                channels.channels.push(Channel {
                    slot,
                    written_bytes: 0,
                    waiting: VecDeque::new(),
                });
            }
        }
        self.next_message(number, hosts);
        Ok(())
    }

    /// Sends a message to one of the receivers.
    pub(super) fn next_message(&mut self, number: usize, hosts: &mut Hosts) {
        let flow = &mut self.flows[number];
        // The number that `begin_completion` will return; the state is borrowed meanwhile.
        let completion = flow.completions.len();
        let (State::Messages(state), Application::Messages { sizes, every }) =
            (&mut flow.state, &flow.plan.application)
        else {
            return;
        };
        let count = state.channels.len() as u64;
        if count == 0 {
            return;
        }
        let bytes = u64::from(sizes.quantile(state.sizes.bits32()).0);
        let channel = &mut state.channels[state.receivers.below(count) as usize];
        channel.written_bytes += bytes;
        let is_alone = channel.waiting.is_empty();
        channel
            .waiting
            .push_back((completion, channel.written_bytes));
        let (slot, until_bytes) = (channel.slot, channel.written_bytes);
        if let Some(every) = *every {
            hosts.wake(number, hosts.now() + every);
        }
        flow.begin_completion(hosts.now(), bytes);
        hosts.write(slot, Side::Guest, bytes);
        if is_alone {
            hosts.want(slot, Side::Receiver, until_bytes);
        }
    }

    /// Handles the arrival of at least one message.
    pub(super) fn message_reached(&mut self, number: usize, slot: Slot, hosts: &mut Hosts) {
        let flow = &mut self.flows[number];
        let receiver = &hosts.end(slot, Side::Receiver).connection;
        let delivered_bytes = receiver.totals().delivered_bytes;
        let (State::Messages(state), Application::Messages { every, .. }) =
            (&mut flow.state, &flow.plan.application)
        else {
            return;
        };
        let is_next_due = every.is_none();
        let mut channels = state.channels.iter_mut();
        let Some(channel) = channels.find(|channel| channel.slot == slot) else {
            return;
        };
        let is_here = |&mut (_, until_bytes): &mut (usize, u64)| until_bytes <= delivered_bytes;
        while let Some((completion, _)) = channel.waiting.pop_front_if(is_here) {
            flow.completions[completion].finished_ns = Some(hosts.now().0);
        }
        if let Some(&(_, until_bytes)) = channel.waiting.front() {
            hosts.want(slot, Side::Receiver, until_bytes);
        }
        if is_next_due {
            self.next_message(number, hosts);
        }
    }
}
