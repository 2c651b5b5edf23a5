//! Staged rollout of a fleet's policy. The hosts that the policy names as canaries try it first, and return to the
//! former policy if the new one is worse. All other hosts wait until each canary has found the new policy good.
//!
//! `memory.rs` is what a host stores, `steps.rs` follows the policies in force, `verdicts.rs` carries the canaries'
//! verdicts through etcd.

#[cfg(test)]
mod interrupted_tests;
mod memory;
pub mod steps;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use uc_client::AgentError;
use uc_client::state::{CanaryStage, CanaryState, Verdict};
use uc_policy::Canary;

use crate::stored_policy::Kept;
pub use memory::Next;
use memory::{Base, Memory};
pub use tally::Tally;

/// Minimum pause before a trial that is due is looked at again, if packets could not be counted at its end.
const WAIT_LEAST: Duration = Duration::from_secs(5);
/// Maximum counted time, in seconds, that is not stored. Until then, counts are stored whenever their duration has
/// doubled since they were stored last.
const UNSTORED_MOST_S: u64 = 3600;

/// Why a valid policy is not put into force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// A canary has not tried the policy yet; or this host is a canary and has not counted packets for long enough
    /// under the policy in force, with which it must compare the new one. The text says which.
    Waits(String),
    /// A canary has found the new policy worse than the one before it, for this reason.
    Worse(String),
}

/// The part of a trial that this process knows; [`Memory`] has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// This host tries no policy.
    None,
    /// The ports do not have the policy yet. It fails if they do not get it before this time.
    Awaits(Instant),
    /// Packets are counted under the policy until this time; the counters had these values at the start.
    Counts(Instant, Tally),
}

/// What this host knows of the fleet's rollout.
#[derive(Debug)]
pub struct Rollout {
    host: String,
    path: PathBuf,
    memory: Memory,
    is_stored: bool,
    /// Whether the policy in force is stored. Until it is, the rollout's file must not change, because it belongs to
    /// the stored policy.
    is_policy_stored: bool,
    /// The canaries' verdicts on policies, keyed by the canary's host name.
    heard: BTreeMap<String, Vec<Verdict>>,
    phase: Phase,
    /// Time up to which packets were counted under a policy that is not on trial, in whole seconds from the start;
    /// `None`: the ports do not have the policy yet, or it is on trial.
    counted_at: Option<Instant>,
    /// Number of counted seconds when the counts were last stored.
    stored_s: u64,
}

impl Rollout {
    /// Continues the rollout that an earlier agent of this host stored in `folder`.
    ///
    /// # Errors
    /// The stored file can't be read.
    pub fn new(host: String, folder: &Path) -> Result<Self, AgentError> {
        let path = folder.join("canary.json");
        Ok(Self {
            host,
            memory: Memory::read(&path)?,
            is_stored: true,
            is_policy_stored: true,
            path,
            heard: BTreeMap::new(),
            phase: Phase::None,
            counted_at: None,
            stored_s: 0,
        })
    }

    /// Returns whether a policy names this host as one of its canaries.
    pub fn is_canary(&self, canary: &Canary) -> bool {
        canary.hosts.contains(&self.host)
    }

    /// Checks that this host may follow the policy with the checksum `hash` now. `in_force` is the checksum of the
    /// policy in force, `None` if there is none.
    pub fn check(&self, canary: &Canary, hash: &str, in_force: Option<&str>) -> Result<(), Halt> {
        if self.is_canary(canary) {
            return match self.memory.said_of(hash) {
                Some(Verdict { worse: None, .. }) => Ok(()),
                Some(Verdict {
                    worse: Some(why), ..
                }) => Err(Halt::Worse(format!(
                    "this host, a canary, tried the policy and it was worse: {why}"
                ))),
                None => self.check_base(canary, in_force),
            };
        }
        let said_of = |said: &Vec<Verdict>| said.iter().find(|said| said.hash == hash).cloned();
        let mut silent = Vec::new();
        for host in &canary.hosts {
            match self.heard.get(host).and_then(said_of) {
                None => silent.push(host.as_str()),
                Some(Verdict { worse: None, .. }) => {}
                Some(Verdict {
                    worse: Some(why), ..
                }) => {
                    return Err(Halt::Worse(format!(
                        "the canary {host} tried the policy and it was worse: {why}"
                    )));
                }
            }
        }
        if silent.is_empty() {
            return Ok(());
        }
        let silent = silent.join(", ");
        Err(Halt::Waits(format!(
            "{silent} must try the new policy first, as canaries"
        )))
    }

    /// Checks that packets were counted under the policy in force for as long as a trial takes. Without a policy in
    /// force there is nothing to compare with, and the check succeeds.
    fn check_base(&self, canary: &Canary, in_force: Option<&str>) -> Result<(), Halt> {
        let seconds = lasts(canary).as_secs();
        if in_force.is_none_or(|in_force| self.memory.has_counted(in_force, seconds)) {
            return Ok(());
        }
        let minutes = canary.minutes;
        Err(Halt::Waits(format!(
            "this host counts packets under the policy in force for {minutes} min before it tries \
             the new one"
        )))
    }

    /// Stores the canaries' verdicts. Returns whether they have changed.
    pub fn hear(&mut self, verdicts: BTreeMap<String, Vec<Verdict>>) -> bool {
        let is_new = self.heard != verdicts;
        self.heard = verdicts;
        is_new
    }

    /// Follows a policy that comes into force. Begins a trial if `canary`, the policy's table, names this host. First
    /// writes the trial to disk, then calls `keep`, which stores the policy and returns whether that succeeded.
    ///
    /// # Errors
    /// A trial begins, but could not be stored: the policy must not come into force.
    pub fn follow(
        &mut self,
        canary: Option<&Canary>,
        next: Next<'_>,
        counters: Option<&Tally>,
        now: Instant,
        keep: &mut dyn FnMut() -> bool,
    ) -> Result<(), AgentError> {
        self.count(counters, now);
        let (hash, is_kept) = (next.hash.to_owned(), next.is_kept);
        let mut memory = self.memory.clone();
        memory.follow(next);
        if memory.trial.is_some() && !is_kept {
            memory.write(&self.path)?;
        }
        self.is_policy_stored = keep();
        self.memory = memory;
        self.store();
        self.counted_at = None;
        self.phase = Phase::None;
        if let (Some(_), Some(canary), None) =
            (&self.memory.trial, canary, self.memory.goes_back_to())
        {
            tracing::info!(hash, minutes = canary.minutes, "this host tries a policy");
            self.phase = Phase::Awaits(now + lasts(canary));
        }
        Ok(())
    }

    /// Returns whether [`Rollout::begin`] must be called, with the ports' counters, once the ports have the policy in
    /// force.
    pub fn awaits_ports(&self) -> bool {
        let counts = self.memory.base.is_some() && self.counted_at.is_none();
        counts || matches!(self.phase, Phase::Awaits(_))
    }

    /// Records that the ports have the policy in force: the time of its trial begins.
    pub fn begin(&mut self, canary: Option<&Canary>, counters: Tally, now: Instant) {
        if let Some(base) = &mut self.memory.base {
            base.add(&counters);
            self.counted_at = Some(now);
            self.store();
        }
        if let (Phase::Awaits(_), Some(canary)) = (&self.phase, canary) {
            self.phase = Phase::Counts(now + lasts(canary), counters);
        }
    }

    /// Counts packets and time under a policy that is not on trial, and stores both at growing intervals. Without
    /// `counters` it counts only the time.
    pub fn count(&mut self, counters: Option<&Tally>, now: Instant) {
        if let (Some(base), Some(at)) = (&mut self.memory.base, &mut self.counted_at) {
            let seconds = now.saturating_duration_since(*at).as_secs();
            *at += Duration::from_secs(seconds);
            base.seconds += seconds;
            if let Some(counters) = counters {
                base.add(counters);
            }
            let unstored_s = base.seconds.saturating_sub(self.stored_s);
            self.is_stored &= unstored_s < UNSTORED_MOST_S.min(self.stored_s.max(1));
        }
        if !self.is_stored {
            self.store();
        }
    }

    /// Returns whether a trial is over: it has lasted long enough, or the ports did not get the policy in time.
    pub fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::None => None,
            Phase::Awaits(due) | Phase::Counts(due, _) => Some(due),
        }
    }

    /// Ends a trial that is due, and stores this host's verdict on the policy. `failure` is why ports do not have the
    /// policy, if a reason is known.
    pub fn judge(&mut self, canary: &Canary, counters: Tally, now: Instant, failure: Option<&str>) {
        let phase = std::mem::replace(&mut self.phase, Phase::None);
        let Some(trial) = &self.memory.trial else {
            return;
        };
        let (worse, after) = match phase {
            Phase::None => return,
            Phase::Awaits(_) => {
                let (minutes, why) = (canary.minutes, failure.unwrap_or("no cause is known"));
                let worse = format!("ports did not get the policy within {minutes} min: {why}");
                (Some(worse), Tally::default())
            }
            Phase::Counts(_, start) => match counters.since(&start) {
                Some(after) => (after.worse_than(&trial.before, canary), after),
                None => {
                    tracing::warn!("counters began again; so does the trial of the policy");
                    self.phase = Phase::Counts(now + lasts(canary), counters);
                    return;
                }
            },
        };
        let hash = trial.hash.clone();
        match &worse {
            None => tracing::info!(hash, "the policy tried is good"),
            Some(why) => {
                tracing::error!(hash, why, "the policy tried is worse than the one before")
            }
        }
        self.memory.say(&hash, worse.clone());
        if worse.is_none() || self.memory.goes_back_to().is_none() {
            self.memory.trial = None;
            self.memory.base = Some(Base {
                seconds: if worse.is_none() {
                    lasts(canary).as_secs()
                } else {
                    0
                },
                counted: after,
                seen: worse.is_none().then_some(counters),
                ..Base::new(&hash)
            });
            self.counted_at = worse.is_none().then_some(now);
        }
        self.store();
    }

    /// Returns the policy to which this host must return; `None` if it need not.
    pub fn goes_back_to(&self) -> Option<Kept> {
        self.memory.goes_back_to().cloned()
    }

    /// Records that the host cannot return to the former policy: the trial ends, and the policy in force stays.
    pub fn stay(&mut self) {
        if let Some(trial) = self.memory.trial.take() {
            self.memory.base = Some(Base::new(&trial.hash));
        }
        self.store();
    }

    /// Returns the rollout's state for clients; `None` if `newest` is. `newest` is the canary table and checksum of the
    /// fleet's newest policy, `in_force` the checksum of the policy in force.
    pub fn state(
        &self,
        newest: Option<(&Canary, &str)>,
        in_force: Option<&str>,
    ) -> Option<CanaryState> {
        let (canary, hash) = newest?;
        let is_tried = self.phase != Phase::None;
        let (stage, why) = match self.check(canary, hash, in_force) {
            _ if in_force == Some(hash) && is_tried => (CanaryStage::Tries, None),
            _ if in_force == Some(hash) => (CanaryStage::InForce, None),
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

    /// Returns how long the engine's next turn may wait because of a trial; `Duration::MAX` without one.
    pub fn wait(&self, now: Instant) -> Duration {
        self.due().map_or(Duration::MAX, |due| {
            due.saturating_duration_since(now).max(WAIT_LEAST)
        })
    }

    /// Records that the policy in force is stored now.
    pub fn take_stored(&mut self) {
        self.is_policy_stored = true;
    }

    /// Stores what must outlive the agent. If that fails, it is tried again at the next call of [`Rollout::count`].
    pub fn store(&mut self) {
        if !self.is_policy_stored {
            self.is_stored = false;
            return;
        }
        let stored = self.memory.write(&self.path);
        self.is_stored = stored.is_ok();
        match stored {
            Ok(()) => self.stored_s = self.memory.base.as_ref().map_or(0, |base| base.seconds),
            Err(error) => {
                tracing::warn!(%error, "the state of the rollout couldn't be stored")
            }
        }
    }
}

fn lasts(canary: &Canary) -> Duration {
    Duration::from_secs(60 * u64::from(canary.minutes))
}
