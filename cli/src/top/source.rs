//! The samples of `uc top`, of this host.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use uc_client::{AgentState, Client};
use uc_port::Store;

use crate::agent;
use crate::explain::story::Story;
use crate::seen::clock::Clock;
use crate::seen::{self, Filter, FlowRow, Limit, Seen};
use crate::status::report;

/// The state of ports and flows at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Ports, flows and packets.
    pub seen: Seen,
    /// The agent's answer, if it gave one.
    pub agent: Option<AgentState>,
}

/// The source that asks the kernel and the agent of this host.
pub struct Host {
    store: Store,
    client: Client,
    filter: Filter,
    interval: Duration,
    before: Option<(Seen, Instant)>,
    due: Instant,
}

impl Host {
    /// Returns a source that asks the kernel, and the agent at `socket`.
    pub fn new(socket: Option<PathBuf>, conditions: Vec<Filter>, interval: Duration) -> Host {
        Host {
            store: Store::default(),
            client: agent::asked(socket),
            filter: conditions.into_iter().fold(Filter::default(), Filter::and),
            interval,
            before: None,
            due: Instant::now(),
        }
    }

    /// Returns the next sample.
    ///
    /// # Errors
    /// If the kernel or the agent can't be asked.
    pub fn next(&mut self) -> Result<Sample> {
        let mut seen = Seen::read(&self.store)?;
        let now = Instant::now();
        if let Some((before, at)) = &self.before {
            seen::rates::measure(&before.flows, &mut seen.flows, now - *at);
        }
        self.before = Some((seen.clone(), now));
        self.due = now + self.interval;
        seen.flows.retain(|flow| self.filter.shows(flow));
        Ok(Sample {
            seen,
            agent: report::ask(&self.client)?.state,
        })
    }

    /// Returns when the next sample is to be taken.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Returns the history of a flow.
    pub fn story(&self, flow: &FlowRow, agent: Option<&AgentState>) -> Result<String> {
        let gone = || format!("{} is gone", flow.name);
        let Some(programs) = self.store.open()? else {
            return Ok(gone());
        };
        let Some(now) = programs.flow(flow.ifindex, flow.guest, flow.remote)? else {
            return Ok(gone());
        };
        let events = programs.events(&now)?;
        let looks = [Limit::of(&now.state)];
        let generation = programs.plan_generation()?;
        let clock = Clock::read()?;
        let mut story = Story::new(flow.clone(), &now, &events, &looks, generation, &clock);
        story.place_rule(agent);
        Ok(story.to_string())
    }
}
