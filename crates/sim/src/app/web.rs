//! Web-like traffic: short flows that arrive as a Poisson process.

use uc_net::random::Stream;

use super::{Applications, State};
use crate::draw::exponential;
use crate::error::SimError;
use crate::hosts::Hosts;
use crate::scenario::Application;

/// Where the times and sizes of one flow's arrivals come from. Two streams, so that another
/// distribution of sizes leaves the times as they are.
#[derive(Debug)]
pub(super) struct Arrivals {
    times: Stream,
    sizes: Stream,
}

impl Arrivals {
    pub(super) fn new(seed: u64, name: &str) -> Arrivals {
        Arrivals {
            times: Stream::new(seed, &format!("{name}/arrivals")),
            sizes: Stream::new(seed, &format!("{name}/sizes")),
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
        self.transfer(number, Some(u64::from(bytes)), hosts)
    }
}
