//! Web-like traffic: short flows that arrive as a Poisson process.

use uc_net::random::Stream;

use super::{Applications, State};
use crate::draw::exponential;
use crate::error::SimError;
use crate::hosts::Hosts;
use crate::scenario::Application;

/// Where the times, sizes and receivers of one flow's arrivals come from. A stream for each, so that
/// another distribution of sizes leaves the rest as it is.
#[derive(Debug)]
pub(super) struct Arrivals {
    times: Stream,
    sizes: Stream,
    receivers: Stream,
}

impl Arrivals {
    pub(super) fn new(seed: u64, name: &str) -> Arrivals {
        Arrivals {
            times: Stream::new(seed, &format!("{name}/arrivals")),
            sizes: Stream::new(seed, &format!("{name}/sizes")),
            receivers: Stream::new(seed, &format!("{name}/receivers")),
        }
    }
}

impl Applications {
    /// A transfer arrives, and the next one's time is drawn. At the flow's start nothing arrives
    /// yet: the first gap begins there.
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
        let next = hosts.now() + exponential(&mut arrivals.times, *mean_gap);
        hosts.wake(number, next);
        if is_start {
            return Ok(());
        }
        let bytes = sizes.quantile(arrivals.sizes.bits32()).0.max(1);
        let receivers = flow.plan.receivers.len() as u64;
        let receiver = arrivals.receivers.below(receivers) as usize;
        self.transfer(number, receiver, u64::from(bytes), hosts)
    }
}
