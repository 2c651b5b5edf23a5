//! Web-like traffic: short flows that arrive as a Poisson process.

use super::Applications;
use super::progress::State;
use crate::error::SimError;
use crate::hosts::Hosts;
use crate::scenario::Application;

impl Applications {
    /// Starts the transfer that arrives now, and draws the time of the next. At the flow's start no
    /// transfer arrives: the first gap begins there.
    pub(super) fn web_arrival(
        &mut self,
        number: usize,
        is_start: bool,
        hosts: &mut Hosts,
    ) -> Result<(), SimError> {
        let flow = &mut self.flows[number];
        let (State::Web(arrivals), Application::Web { mean_gap, sizes }) =
            (&mut flow.state, &flow.plan.application)
        else {
            return Ok(());
        };
        let next = hosts.now() + arrivals.gap(*mean_gap);
        hosts.wake(number, next);
        if is_start {
            return Ok(());
        }
        let bytes = arrivals.size(sizes).0;
        let receiver = arrivals.receiver(flow.plan.receivers.len());
        self.transfer(number, receiver, u64::from(bytes), hosts)
    }
}
