//! Staged rollout of a fleet's policy: the hosts that it names as canaries try it first, and go back to
//! the policy before it if that was better. All others wait until each canary has said that it is good.
//!
//! What a canary said, and what a trial compares with, are stored: a trial that an agent's end
//! interrupts begins again with the next agent, and a policy that was worse here is not tried again.
//! `steps.rs` follows the policies in force, `verdicts.rs` carries what canaries say.

pub mod steps;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uc_client::state::{CanaryStage, CanaryState, Verdict};
use uc_client::{AgentError, guarded};
use uc_policy::{Canary, trusted};

use crate::kept::{KEPT_MAX_BYTES, Kept};
pub use tally::Tally;

/// Number of policies that a canary remembers having tried.
const SAID_MAX: usize = 8;
/// Maximum length of the file: a stored policy, and what else it has.
const FILE_MAX_BYTES: u64 = KEPT_MAX_BYTES + (1 << 16);

/// Pause before packets are counted again at the end of a trial, if they could not be.
const WAIT_LEAST: Duration = Duration::from_secs(5);

/// Why a valid policy is not put into force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Canaries have not said yet what they think of it.
    Waits(String),
    /// A canary has said that it is worse than the one before it.
    Worse(String),
}

/// What a canary stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    said: Vec<Verdict>,
    trial: Option<Trial>,
}

/// A policy that a canary tries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trial {
    /// The checksum of that policy.
    hash: String,
    /// The policy before it, to which the host may go back.
    former: Option<Kept>,
    /// What was counted under that.
    before: Tally,
}

/// The time of a trial in this process.
#[derive(Clone, Debug)]
struct Clock {
    ends: Instant,
    /// The counters when it began.
    start: Tally,
}

/// What this host knows of the fleet's rollout.
#[derive(Debug)]
pub struct Rollout {
    host: String,
    path: PathBuf,
    memory: Memory,
    /// What canaries said, by host.
    heard: BTreeMap<String, Vec<Verdict>>,
    /// Generation of the policy in force when it was last followed.
    generation: u64,
    /// The counters when that policy came into force, or this process began.
    began: Tally,
    clock: Option<Clock>,
}

impl Rollout {
    /// Goes on with what an earlier agent of this host stored in the folder.
    pub fn new(host: String, folder: &Path) -> Self {
        let path = folder.join("canary.json");
        Self {
            host,
            memory: read(&path),
            path,
            heard: BTreeMap::new(),
            generation: 0,
            began: Tally::default(),
            clock: None,
        }
    }

    fn is_canary(&self, canary: &Canary) -> bool {
        canary.hosts.contains(&self.host)
    }

    /// Checks that it is this host's turn to follow the policy with this checksum.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, canary: &Canary, hash: &str) -> Result<(), Halt> {
        let said_of = |said: &[Verdict]| said.iter().find(|one| one.hash == hash).cloned();
        if self.is_canary(canary) {
            let worse = said_of(&self.memory.said).and_then(|verdict| verdict.worse);
            return worse.map_or(Ok(()), |why| {
                Err(Halt::Worse(format!("was worse here: {why}")))
            });
        }
        let mut silent = Vec::new();
        for host in &canary.hosts {
            match self.heard.get(host).and_then(|said| said_of(said)) {
                None => silent.push(host.as_str()),
                Some(Verdict { worse: None, .. }) => {}
                Some(Verdict {
                    worse: Some(why), ..
                }) => {
                    return Err(Halt::Worse(format!(
                        "was worse on the canary {host}: {why}"
                    )));
                }
            }
        }
        if silent.is_empty() {
            return Ok(());
        }
        let silent = silent.join(", ");
        Err(Halt::Waits(format!("{silent} must try it first")))
    }

    /// Takes in what canaries said. Returns whether that is new.
    pub fn hear(&mut self, verdicts: BTreeMap<String, Vec<Verdict>>) -> bool {
        let is_new = self.heard != verdicts;
        self.heard = verdicts;
        is_new
    }

    /// Returns whether the policy of this generation was not followed yet.
    pub fn is_behind(&self, generation: u64) -> bool {
        self.generation != generation
    }

    /// Follows a policy that came into force: begins a trial where it asks this host for one. `former`:
    /// the policy before it.
    pub fn follow(
        &mut self,
        generation: u64,
        (canary, hash): (Option<&Canary>, &str),
        former: Option<Kept>,
        counters: Tally,
        now: Instant,
    ) {
        self.generation = generation;
        let began = std::mem::replace(&mut self.began, counters.clone());
        let unfinished = self.memory.trial.take();
        self.clock = None;
        let canary = canary.filter(|canary| self.is_canary(canary));
        let is_known = self.memory.said.iter().any(|said| said.hash == hash);
        if let Some(canary) = canary.filter(|_| !is_known) {
            tracing::info!(hash, minutes = canary.minutes, "this host tries a policy");
            let before = counters.since(&began).unwrap_or_default();
            let trial = match unfinished {
                Some(trial) => Trial {
                    hash: hash.to_owned(),
                    ..trial
                },
                None => Trial {
                    hash: hash.to_owned(),
                    former,
                    before,
                },
            };
            self.memory.trial = Some(trial);
            self.clock = Some(Clock::new(canary, counters, now));
        }
        self.store();
    }

    /// Returns whether a trial has lasted long enough.
    pub fn is_due(&self, now: Instant) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.ends <= now)
    }

    /// Ends a trial that is due. Returns the policy to go back to if this one is worse; if so, call
    /// [`Rollout::say`] when that is in force again.
    pub fn judge(
        &mut self,
        canary: &Canary,
        counters: Tally,
        now: Instant,
    ) -> Option<(Kept, String)> {
        let (clock, trial) = (self.clock.take()?, self.memory.trial.as_ref()?);
        let Some(after) = counters.since(&clock.start) else {
            tracing::warn!("counters began again; so does the trial of the policy");
            self.clock = Some(Clock::new(canary, counters, now));
            return None;
        };
        let worse = after.worse_than(&trial.before, canary);
        match worse.zip(trial.former.clone()) {
            None => {
                self.say(None);
                None
            }
            Some((why, former)) => Some((former, why)),
        }
    }

    /// Says what this host thinks of the policy that it has tried, and stores that.
    pub fn say(&mut self, worse: Option<String>) {
        let Some(trial) = self.memory.trial.take() else {
            return;
        };
        let hash = trial.hash;
        match &worse {
            None => tracing::info!(hash, "the policy tried is good"),
            Some(why) => {
                tracing::error!(hash, why, "the policy tried is worse than the one before")
            }
        }
        self.memory.said.retain(|said| said.hash != hash);
        self.memory.said.push(Verdict { hash, worse });
        let beyond = self.memory.said.len().saturating_sub(SAID_MAX);
        self.memory.said.drain(..beyond);
        self.store();
    }

    /// Returns the state for others; `newest`: the fleet's newest policy and its checksum, `in_force`:
    /// the checksum of the one in force.
    pub fn state(&self, newest: Option<(&Canary, &str)>, in_force: &str) -> Option<CanaryState> {
        let (canary, hash) = newest?;
        let (stage, why) = match self.check(canary, hash) {
            _ if hash == in_force && self.clock.is_some() => (CanaryStage::Tries, None),
            _ if hash == in_force => (CanaryStage::InForce, None),
            // it waits for something else
            Ok(()) => (CanaryStage::Waits, None),
            Err(Halt::Waits(why)) => (CanaryStage::Waits, Some(why)),
            Err(Halt::Worse(why)) => (CanaryStage::Worse, Some(why)),
        };
        Some(CanaryState {
            host: self.host.clone(),
            hosts: canary.hosts.clone(),
            stage,
            hash: hash.to_owned(),
            why,
            said: match self.is_canary(canary) {
                true => self.memory.said.clone(),
                false => Vec::new(),
            },
        })
    }

    /// Returns how long the next turn may wait because of a trial.
    pub fn wait(&self, now: Instant) -> Duration {
        let ends = self.clock.as_ref().map(|clock| clock.ends);
        ends.map_or(Duration::MAX, |ends| {
            ends.saturating_duration_since(now).max(WAIT_LEAST)
        })
    }

    fn store(&self) {
        if self.memory == read(&self.path) {
            return;
        }
        let stored = serde_json::to_string(&self.memory)
            .map_err(|error| AgentError::io("write the rollout down", error))
            .and_then(|text| guarded::write(&self.path, &text));
        if let Err(error) = stored {
            tracing::warn!(%error, "the state of the rollout couldn't be stored");
        }
    }
}

impl Clock {
    fn new(canary: &Canary, start: Tally, now: Instant) -> Self {
        let lasts = Duration::from_secs(60 * u64::from(canary.minutes));
        Self {
            ends: now + lasts,
            start,
        }
    }
}

fn read(path: &Path) -> Memory {
    if !path.exists() {
        return Memory::default();
    }
    let text = trusted::read_most(path, FILE_MAX_BYTES).map_err(|error| error.to_string());
    let memory =
        text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    memory.unwrap_or_else(|why| {
        let path = path.display();
        tracing::warn!(%path, why, "the stored state of the rollout can't be used");
        Memory::default()
    })
}
