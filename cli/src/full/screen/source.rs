//! Where the samples of `uc top` come from: this host, or a recording.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use uc_client::{AgentState, Client};
use uc_port::Store;

use super::recording::{self, Sample};
use crate::agent;
use crate::explain::story::Story;
use crate::seen::clock::Clock;
use crate::seen::{self, Filter, FlowRow, Limit, Seen};
use crate::status::report;

/// A source of samples.
pub trait Source {
    /// Returns the next sample; `None` at the end.
    ///
    /// # Errors
    /// If the kernel or the agent can't be asked.
    fn next(&mut self) -> Result<Option<Sample>>;
    /// Returns when the next sample is to be taken; `None` at the end.
    fn due(&self) -> Option<Instant>;
    /// Returns where in a recording the last sample is, in words.
    fn place(&self) -> Option<String>;
    /// Returns the history of a flow.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn story(&self, flow: &FlowRow, agent: Option<&AgentState>) -> Result<String>;
}

fn all_of(conditions: Vec<Filter>) -> Filter {
    conditions.into_iter().fold(Filter::default(), Filter::and)
}

/// The source that asks the kernel and the agent of this host.
pub struct Host {
    store: Store,
    client: Client,
    filter: Filter,
    interval: Duration,
    began: Instant,
    before: Option<(Seen, Instant)>,
    due: Instant,
}

impl Host {
    /// Returns a source that asks the kernel, and the agent at `socket`.
    pub fn new(socket: Option<PathBuf>, conditions: Vec<Filter>, interval: Duration) -> Host {
        let now = Instant::now();
        Host {
            store: Store::default(),
            client: agent::asked(socket),
            filter: all_of(conditions),
            interval,
            began: now,
            before: None,
            due: now,
        }
    }
}

impl Source for Host {
    fn next(&mut self) -> Result<Option<Sample>> {
        let mut seen = Seen::read(&self.store)?;
        let now = Instant::now();
        if let Some((before, at)) = &self.before {
            seen::rates::measure(&before.flows, &mut seen.flows, now - *at);
        }
        self.before = Some((seen.clone(), now));
        self.due = now + self.interval;
        seen.flows.retain(|flow| self.filter.shows(flow));
        Ok(Some(Sample {
            at_ms: u64::try_from((now - self.began).as_millis()).unwrap_or(u64::MAX),
            seen,
            agent: report::ask(&self.client)?.state,
        }))
    }

    fn due(&self) -> Option<Instant> {
        Some(self.due)
    }

    fn place(&self) -> Option<String> {
        None
    }

    fn story(&self, flow: &FlowRow, agent: Option<&AgentState>) -> Result<String> {
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

/// The source that repeats the samples of a recording.
pub struct Replay {
    samples: Vec<Sample>,
    /// Number of samples that were returned.
    at: usize,
    filter: Filter,
    speed: f64,
    began: Instant,
}

impl Replay {
    /// Reads a recording whole.
    ///
    /// # Errors
    /// Names the file and the line that is not one of a recording.
    pub fn open(path: &Path, speed: f64, conditions: Vec<Filter>) -> Result<Replay> {
        Ok(Replay {
            samples: recording::read(path)?,
            at: 0,
            filter: all_of(conditions),
            speed,
            began: Instant::now(),
        })
    }
}

impl Source for Replay {
    fn next(&mut self) -> Result<Option<Sample>> {
        let Some(sample) = self.samples.get(self.at) else {
            return Ok(None);
        };
        let mut sample = sample.clone();
        self.at += 1;
        sample.seen.flows.retain(|flow| self.filter.shows(flow));
        Ok(Some(sample))
    }

    fn due(&self) -> Option<Instant> {
        let (next, first) = (self.samples.get(self.at)?, self.samples.first()?);
        let after = Duration::from_millis(next.at_ms - first.at_ms);
        Some(self.began + after.div_f64(self.speed))
    }

    fn place(&self) -> Option<String> {
        let all = self.samples.len();
        let end = if self.at == all { ", its end" } else { "" };
        Some(format!("replay {}/{all}{end}", self.at))
    }

    fn story(&self, _: &FlowRow, _: Option<&AgentState>) -> Result<String> {
        Ok("a recording has no histories of flows".to_owned())
    }
}
