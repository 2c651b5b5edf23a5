//! Takes the samples of this host that `uc top` shows.

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

/// A sample: the state of ports and flows at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Ports, flows and packet counters at the moment of the sample.
    pub seen: Seen,
    /// The agent's state; `None` if no agent answers.
    pub agent: Option<AgentState>,
}

/// The source of samples: it asks the kernel and the agent of this host.
pub struct Host {
    store: Store,
    client: Client,
    filter: Filter,
    interval: Duration,
    before: Option<(Seen, Instant)>,
    due: Instant,
}

impl Host {
    /// Returns a source that asks the kernel, and the agent at `socket` (`None`: this host's agent).
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

    /// Takes a sample. Its flows have goodputs if this is not the first sample.
    ///
    /// # Errors
    /// The kernel or the agent can't be asked.
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

    /// Returns the time at which the next sample is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Returns the history of a flow, as `uc explain` prints it, or a line that the flow is gone.
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
