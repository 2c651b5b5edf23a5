//! What a host stores of rollouts: its verdicts on policies, the policy that it tries, and the packets that it has
//! counted under the policy in force, with which the next trial compares.
//!
//! A trial is stored before the policy that it tries, and removed after the policy that ends it is stored.
//! Whenever an agent ends, the next one finds a policy on trial together with its trial.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uc_client::AgentError;
use uc_client::state::Verdict;
use uc_files::FileError;

use super::Tally;
use crate::stored_policy::{KEPT_MAX_BYTES, Kept};

/// Maximum number of verdicts that a canary stores; the oldest is removed first, except that on the policy in force.
const SAID_MAX: usize = 8;
/// Maximum length of the file in bytes: a stored policy, and 64 KiB for the rest.
const FILE_MAX_BYTES: u64 = KEPT_MAX_BYTES + (1 << 16);
/// Why a policy is not found good if its trial was not stored.
const LOST: &str =
    "canary.json does not have the policy's trial; change a comment in the policy to try it again";

/// State of a fleet's rollout that a host stores on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// This host's verdicts on policies, in order of time.
    pub said: Vec<Verdict>,
    /// The policy on trial; `None`: there is no trial. A policy that was found worse stays here until the host has
    /// returned to the former one.
    pub trial: Option<Trial>,
    /// Packets that were counted under the policy in force; `None` while a policy is on trial.
    pub base: Option<Base>,
}

/// The trial of a new policy on a canary host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Checksum of the policy that is tried.
    pub hash: String,
    /// The former policy, to which the host may return; `None`: there was none.
    pub former: Option<Kept>,
    /// Packets by reason under the policy before the trial.
    pub before: Tally,
    /// Number of seconds for which those packets were counted.
    pub before_s: u64,
}

/// Packets that were counted under a policy that is not on trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Checksum of the policy under which the packets were counted.
    pub hash: String,
    /// Number of seconds for which agents have counted packets under the policy.
    pub seconds: u64,
    /// Packets by reason that were counted under the policy, up to `seen`.
    pub counted: Tally,
    /// Values of the ports' counters when they were last read; `None`: not read yet under this policy.
    pub seen: Option<Tally>,
}

/// A policy that is about to come into force.
#[derive(Clone, Debug)]
pub struct Next<'a> {
    /// Checksum of the policy's text.
    pub hash: &'a str,
    /// Whether the policy names this host as one of its canaries.
    pub is_canary: bool,
    /// The policy of etcd that was in force until now; `None`: there was none.
    pub former: Option<Kept>,
    /// Whether an earlier agent had the policy in force, and stored it.
    pub is_kept: bool,
}

impl Base {
    /// Creates an empty count for the policy with this checksum.
    pub fn new(hash: &str) -> Self {
        Self {
            hash: hash.to_owned(),
            seconds: 0,
            counted: Tally::default(),
            seen: None,
        }
    }

    /// Adds the packets since the counters were last read. If counters began again at 0 meanwhile, the packets since
    /// then are lost.
    pub fn add(&mut self, counters: &Tally) {
        if let Some(more) = self.seen.as_ref().and_then(|seen| counters.since(seen)) {
            self.counted.add(&more);
        }
        self.seen = Some(counters.clone());
    }
}

impl Trial {
    fn is_after(&self, hash: &str) -> bool {
        self.former.as_ref().is_some_and(|kept| kept.hash() == hash)
    }
}

impl Memory {
    /// Reads the stored state. Returns an empty one if there is no file, if it can't be parsed, or if users other than
    /// root may write it.
    ///
    /// # Errors
    /// The file exists but can't be read: a trial in it must not be forgotten.
    pub fn read(path: &Path) -> Result<Self, AgentError> {
        let text = match uc_files::read_most(path, FILE_MAX_BYTES) {
            Err(error) if error.is_absent() => {
                return Ok(Self::default());
            }
            Err(error @ FileError::Read { .. }) => return Err(error.into()),
            text => text.map_err(|error| error.to_string()),
        };
        let memory =
            text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        Ok(memory.unwrap_or_else(|why| {
            let path = path.display();
            tracing::warn!(%path, why, "the stored state of the rollout can't be used");
            Self::default()
        }))
    }

    /// Writes the state to the file, unless the file has it already.
    pub fn write(&self, path: &Path) -> Result<(), AgentError> {
        if Self::read(path).is_ok_and(|stored| stored == *self) {
            return Ok(());
        }
        let text = serde_json::to_string(self)
            .map_err(|error| AgentError::io("format the state of the rollout as JSON", error))?;
        Ok(uc_files::write(path, &text)?)
    }

    /// Returns this host's verdict on the policy with this checksum; `None` if it has given none.
    pub fn said_of(&self, hash: &str) -> Option<&Verdict> {
        self.said.iter().find(|said| said.hash == hash)
    }

    /// Returns whether packets were counted for at least `seconds` under the policy with the checksum `in_force`, or
    /// under the one before its trial. A new trial needs such counts to compare with.
    pub fn has_counted(&self, in_force: &str, seconds: u64) -> bool {
        let base = self.base.as_ref().filter(|base| base.hash == in_force);
        let trial = self.trial.as_ref().filter(|trial| trial.hash == in_force);
        let of_trial = |trial: &Trial| trial.former.is_none() || trial.before_s >= seconds;
        base.is_some_and(|base| base.seconds >= seconds) || trial.is_some_and(of_trial)
    }

    /// Returns the former policy, to which the host must return because the policy on trial was found worse; otherwise
    /// `None`.
    pub fn goes_back_to(&self) -> Option<&Kept> {
        let trial = self.trial.as_ref()?;
        let said = self.said_of(&trial.hash);
        let is_worse = said.is_some_and(|said| said.worse.is_some());
        let former = trial.former.as_ref();
        former.filter(|_| is_worse)
    }

    /// Records that a policy comes into force: a trial begins, goes on or ends.
    pub fn follow(&mut self, next: Next<'_>) {
        let (unfinished, base) = (self.trial.take(), self.base.take());
        let base = base.filter(|base| match &next.former {
            Some(former) if next.hash != base.hash => former.hash() == base.hash,
            // What an earlier agent followed can't be read: its counts are known, and ports still have it.
            None if !next.is_kept => true,
            _ => next.hash == base.hash,
        });
        let is_said = self.said_of(next.hash).is_some();
        let is_tried = next.is_canary && !is_said;
        let hash = next.hash.to_owned();
        match (unfinished, base) {
            // The host has gone back, or did not get to the policy on trial.
            (Some(trial), _) if trial.is_after(next.hash) => {
                self.base = Some(Base {
                    seconds: trial.before_s,
                    counted: trial.before,
                    ..Base::new(next.hash)
                });
            }
            // An agent ended before it had gone back.
            (Some(trial), _) if is_said && next.is_kept && trial.hash == hash => {
                self.trial = Some(trial);
            }
            // The trial goes on, or that of a newer policy replaces it.
            (Some(trial), _) if is_tried => self.trial = Some(Trial { hash, ..trial }),
            // It is in force already.
            (_, Some(base)) if base.hash == hash => self.base = Some(base),
            (_, base) if is_tried && !next.is_kept => {
                let base = base.unwrap_or_else(|| Base::new(""));
                self.trial = Some(Trial {
                    hash,
                    former: next.former,
                    before: base.counted,
                    before_s: base.seconds,
                });
            }
            _ => {
                self.base = Some(Base::new(next.hash));
                if is_tried {
                    tracing::error!(hash, why = LOST, "the policy in force was not tried");
                    self.say(next.hash, Some(LOST.to_owned()));
                }
            }
        }
    }

    /// Records this host's verdict on a policy, in place of an earlier one on the same policy; `worse` is why the
    /// policy is worse, `None` if it is good.
    pub fn say(&mut self, hash: &str, worse: Option<String>) {
        let hash = hash.to_owned();
        self.said.retain(|said| said.hash != hash);
        self.said.push(Verdict { hash, worse });
        while self.said.len() > SAID_MAX {
            // hosts that join the fleet wait for what was said of the policy in force
            let base = self.base.as_ref();
            let is_old = |said: &Verdict| base.is_none_or(|base| base.hash != said.hash);
            let oldest = self.said.iter().position(is_old);
            self.said.remove(oldest.unwrap_or_default());
        }
    }
}
