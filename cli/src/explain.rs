//! `uc explain FLOW`: what the law did to a flow, and why.

mod dupack;
pub mod find;
mod hold;
mod passed;
mod split;
pub mod story;
mod told;
pub mod words;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use uc_port::{FlowView, Programs, Store};

use crate::agent;
use crate::seen::clock::Clock;
use crate::seen::{self, Limit};
use crate::status::report;
use find::Found;
use story::Story;

/// Show what the law did to a flow, and why.
///
/// FLOW is a line of `uc flows`, or enough of it to match one flow only: port, guest and remote, or
/// parts of these in that order. Exit status 1: no flow matches, or several, which are listed.
#[derive(Args)]
pub struct Explain {
    /// Port, guest's ADDRESS:PORT and remote ADDRESS:PORT of the flow, or parts of these, in that order
    #[arg(required = true, value_name = "FLOW")]
    flow: Vec<String>,
    /// Print further events until the flow is gone or Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Socket of the agent, which knows the line of the flow's rule in the policy file [default: the running
    /// agent's, otherwise /run/undercurrent/agent.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON object; with --follow, one line per event
    #[arg(long)]
    json: bool,
}

/// The JSON object for the case that not exactly one flow matches.
#[derive(Serialize)]
struct Nothing<'a> {
    /// The words by which the flow was searched.
    words: &'a [String],
    /// Names of the first 20 flows that match; empty if none does.
    fits: &'a [String],
}

/// Maximum number of matching flows whose names are listed.
const LISTED_MAX: usize = 20;
/// Number of samples of the flow's state from which its limit is determined.
const LOOKS: u32 = 10;
const LOOKS_APART: Duration = Duration::from_millis(10);
/// Time between two reads of the flow's events with --follow.
const FOLLOW_APART: Duration = Duration::from_millis(200);

impl Explain {
    /// Prints the history of the flow. Returns false, for exit status 1, unless exactly one flow matches.
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
                let listed = &names[..names.len().min(LISTED_MAX)];
                if !self.tell_nothing(&words, listed)? {
                    let cut = if names.len() > listed.len() {
                        ", the first of them"
                    } else {
                        ""
                    };
                    outln!("'{}' fits {} flows{cut}:", words.join(" "), names.len());
                    listed.iter().for_each(|name| outln!("{name}"));
                }
                Ok(false)
            }
            Found::None => {
                if !self.tell_nothing(&words, &[])? {
                    outln!(
                        "no flow fits '{}'; `uc flows` lists them, without those that began before \
                         their port was attached",
                        words.join(" ")
                    );
                }
                Ok(false)
            }
        }
    }

    /// With --json, prints the object for no single match; returns whether --json was given.
    fn tell_nothing(&self, words: &[String], fits: &[String]) -> Result<bool> {
        if self.json {
            outln!("{}", serde_json::to_string(&Nothing { words, fits })?);
        }
        Ok(self.json)
    }

    /// Prints the flow's whole history. Returns the number of the last printed event, from which --follow continues;
    /// `None` if the flow is gone.
    fn tell(
        &self,
        store: &Store,
        programs: &Programs,
        flow: &(FlowView, String),
    ) -> Result<Option<u16>> {
        let Some(mut story) = story_of(store, programs, &flow.0)? else {
            return Ok(None);
        };
        // Without an agent, or permission to ask it, the rest is printed all the same.
        let agent = report::ask(&agent::asked(self.socket.clone())).unwrap_or_default();
        story.place_rule(agent.state.as_ref());
        story.split_by = split::of(flow.0.guest, flow.0.remote)?;
        story.split = story.split_by.is_some();
        story.dupack = dupack::of(&flow.0);
        story.hold = hold::of(&flow.0);
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
            let Some(now) = programs.again(flow)? else {
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
pub fn story_of(store: &Store, programs: &Programs, flow: &FlowView) -> Result<Option<Story>> {
    let mut limits = Vec::new();
    let mut last = None;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(LOOKS_APART);
        }
        let Some(now) = programs.again(flow)? else {
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
