//! `uc explain FLOW`: what the law did to a flow, and why.

pub mod find;
mod passed;
pub mod story;
mod told;
pub mod words;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use uc_port::{FlowView, Programs, Store};

use crate::host::agent;
use crate::host::seen::clock::Clock;
use crate::host::seen::{self, Limit};
use crate::host::status::report;
use find::Found;
use story::Story;

/// Tell what the law did to a flow, and why.
///
/// FLOW is a line of `uc flows`, or so much of it that it fits one flow only: port, guest and
/// remote, or parts of these in that order. Exit status 1: it fits none, or several, which are
/// listed.
#[derive(Args)]
pub struct Explain {
    /// Port, guest and remote, or parts of them
    #[arg(required = true, value_name = "FLOW")]
    flow: Vec<String>,
    /// Go on telling what happens, until the flow is gone or Ctrl-C
    #[arg(long)]
    follow: bool,
    /// The agent's socket, instead of this host's: it knows where a rule stands
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON object; with --follow, one on a line for each event
    #[arg(long)]
    json: bool,
}

/// Why nothing is told, for programs.
#[derive(Serialize)]
struct Nothing<'a> {
    /// What was looked for.
    words: &'a [String],
    /// The names of flows that fit; several, or none.
    fits: &'a [String],
}

/// Looks at a flow, to see what holds it back, and the time between two.
const LOOKS: u32 = 10;
const LOOKS_APART: Duration = Duration::from_millis(10);
/// Between two looks for news.
const FOLLOW_APART: Duration = Duration::from_millis(200);

impl Explain {
    /// Tells; exit status 1 if there is no one flow to tell of.
    pub fn execute(self) -> Result<bool> {
        let store = Store::default();
        let words = find::words(&self.flow);
        let Some(programs) = store.open()? else {
            self.tell_nothing(&words, &[])?;
            bail!("no port is attached, so there is no flow; `uc attach PORT` attaches one");
        };
        match find::find(&store, &programs, &words)? {
            Found::One(flow) => {
                let Some(told) = self.tell(&store, &programs, &flow)? else {
                    if !self.tell_nothing(&words, &[])? {
                        outln!("{}: the flow has just gone", flow.1);
                    }
                    return Ok(false);
                };
                if self.follow {
                    self.follow(&programs, &flow.0, told)?;
                }
                Ok(true)
            }
            Found::Passed(passed) => {
                passed::tell(&passed, &Clock::read()?, self.json)?;
                Ok(true)
            }
            Found::Several(names) => {
                if !self.tell_nothing(&words, &names)? {
                    outln!("'{}' fits {} flows:", words.join(" "), names.len());
                    names.iter().for_each(|name| outln!("{name}"));
                }
                Ok(false)
            }
            Found::None => {
                if !self.tell_nothing(&words, &[])? {
                    outln!("no flow fits '{}'; `uc flows` lists them", words.join(" "));
                }
                Ok(false)
            }
        }
    }

    /// The object of which programs are told where there is no one flow to tell of; whether it was
    /// asked for.
    fn tell_nothing(&self, words: &[String], fits: &[String]) -> Result<bool> {
        if self.json {
            outln!("{}", serde_json::to_string(&Nothing { words, fits })?);
        }
        Ok(self.json)
    }

    /// The whole story; the number of the last event, or none if there is no such flow any more.
    fn tell(
        &self,
        store: &Store,
        programs: &Programs,
        flow: &(FlowView, String),
    ) -> Result<Option<u16>> {
        let Some(mut story) = story_of(store, programs, &flow.0)? else {
            return Ok(None);
        };
        // Whoever can't ask it, or finds none, is told the rest.
        let agent = report::ask(&agent::asked(self.socket.clone())).unwrap_or_default();
        story.place_rule(agent.state.as_ref());
        if self.json && self.follow {
            outln!("{}", serde_json::to_string(&story)?);
        } else if self.json {
            outln!("{}", serde_json::to_string_pretty(&story)?);
        } else {
            out!("{story}");
        }
        Ok(Some(story.last_number()))
    }

    fn follow(&self, programs: &Programs, flow: &FlowView, told: u16) -> Result<()> {
        let mut told = told;
        loop {
            std::thread::sleep(FOLLOW_APART);
            let Some(now) = programs.flow(flow.ifindex, flow.guest, flow.remote)? else {
                outln!("the flow is gone");
                return Ok(());
            };
            let events = programs.events(&now)?;
            let last = events.last().map_or(0, |event| event.number);
            if last < told {
                told = 0; // another connection on the same ports
            }
            let clock = Clock::read()?;
            for event in events.iter().filter(|event| event.number > told) {
                let line = story::EventLine::new(event, &now, &clock);
                if self.json {
                    outln!("{}", serde_json::to_string(&line)?);
                } else {
                    outln!("{line}");
                }
            }
            told = last;
        }
    }
}

/// Reads the history of a flow; `None` if it has left the table.
///
/// # Errors
/// What the kernel refuses.
pub fn story_of(store: &Store, programs: &Programs, flow: &FlowView) -> Result<Option<Story>> {
    let mut limits = Vec::new();
    let mut last = None;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(LOOKS_APART);
        }
        let Some(now) = programs.flow(flow.ifindex, flow.guest, flow.remote)? else {
            break;
        };
        limits.push(Limit::of(&now.state));
        last = Some(now);
    }
    let Some(now) = last else {
        return Ok(None);
    };
    let row = seen::flow_row(programs, &now, &store.attached(programs)?)?;
    let events = programs.events(&now)?;
    let generation = programs.plan_generation()?;
    let clock = Clock::read()?;
    Ok(Some(Story::new(
        row, &now, &events, &limits, generation, &clock,
    )))
}
