//! The source of the policy in force. A new policy replaces the policy in force only if it is valid; otherwise the old
//! one stays, and the agent's state has the new one's errors.
//!
//! If the configuration names etcd, the policy is the value of a key in etcd; until etcd has answered, it is the last
//! stored copy.

mod valid;

use std::path::PathBuf;

use uc_client::state::{EtcdState, PolicySource, PolicyState, unix_s};
use uc_client::{AgentError, AgentState};
use uc_policy::Policy;

use crate::etcd::Heard;
use crate::notify::Notify;
use crate::reload::{accept, faults, refuse, rule_lines};
use crate::rollout::Halt;
use crate::stored_policy::Kept;
use valid::Origin;
pub use valid::Valid;

/// A function that returns an error if it is not yet this host's turn to follow this policy. Its second argument is the
/// checksum of the policy in force.
type Turn<'a> = dyn Fn(&Valid, Option<&str>) -> Result<(), Halt> + 'a;
/// A function that is called when a fleet's policy comes into force. Its arguments: the policy, the former policy, and
/// whether an earlier agent has stored the new one; then a function to call that stores the policy and returns whether
/// that succeeded. It returns an error if the policy must not come into force.
type Follow<'a> =
    dyn Fn((&Valid, Option<Kept>, bool), &mut dyn FnMut() -> bool) -> Result<(), String> + 'a;

/// The functions that the agent calls while it reads a policy.
pub struct Reader<'a> {
    /// Notifies systemd that the service is alive while a policy is read.
    pub notify: &'a Notify,
    /// Returns an error if an operator must confirm the valid policy, whose text is the second argument.
    pub judge: &'a dyn Fn(&Policy, &str) -> Result<(), String>,
    /// Returns an error if it is not yet this host's turn to follow a fleet's policy.
    pub turn: &'a Turn<'a>,
    /// Is called when a fleet's policy comes into force, and calls the function that stores it.
    pub follow: &'a Follow<'a>,
}

/// The source of the policy: the configuration file, or etcd with its stored copy.
#[derive(Debug)]
pub struct Source {
    config: PathBuf,
    /// Path of the file with etcd's last valid policy, and the key in etcd; `None` without etcd.
    kept: Option<(PathBuf, String)>,
    /// The configuration's text as last read. The next field has its settings for the agent.
    text: String,
    own: uc_policy::Agent,
    in_force: Option<Valid>,
    /// Revision of etcd's policy in force if the policy could not be stored; otherwise `None`.
    unkept: Option<i64>,
    /// The last valid policy that is not in force: it waits for this host's turn or for an operator's confirmation.
    unconfirmed: Option<(Origin, Valid)>,
}

impl Source {
    /// Reads the configuration, which must be valid.
    ///
    /// # Errors
    /// All errors of the text, or the error of reading the file.
    pub fn open(config: PathBuf) -> Result<Self, AgentError> {
        let (policy, text) = Policy::load(&config)?;
        let own = policy.agent.clone();
        let kept = |etcd: &uc_policy::Etcd| (own.state.join("policy.json"), etcd.key.clone());
        Ok(Self {
            config,
            kept: own.etcd.as_ref().map(kept),
            text: text.clone(),
            in_force: own.etcd.is_none().then(|| Valid::new(policy, text)),
            unconfirmed: None,
            unkept: None,
            own,
        })
    }

    /// Puts the first policy into force: the configuration's, or the stored copy of etcd's. With etcd and without a
    /// copy no policy is in force yet, and ports stay as an earlier agent left them.
    pub fn begin(&mut self, state: &mut AgentState, reader: &Reader<'_>) {
        let Some((path, key)) = &self.kept else {
            if let Some(valid) = self.in_force.take() {
                let place = self.config.display().to_string();
                let origin = Origin {
                    source: PolicySource::File,
                    place,
                    revision: None,
                };
                self.admit(origin, valid, state, reader);
            }
            return;
        };
        accept(PolicySource::File, self.config.display().to_string(), state);
        state.etcd = Some(EtcdState {
            endpoints: self
                .own
                .etcd
                .as_ref()
                .map_or(Vec::new(), |etcd| etcd.endpoints.clone()),
            key: key.clone(),
            ..EtcdState::default()
        });
        let (kept, why) = Kept::read(path, key);
        if let Some(why) = why {
            tracing::warn!(why, "the stored copy of etcd's policy can't be used");
        }
        if let Some(kept) = kept {
            let origin = Origin {
                source: PolicySource::Kept,
                place: kept.key,
                revision: Some(kept.revision),
            };
            self.take(origin, kept.text, state, reader);
        }
    }

    /// Returns the file's settings for the agent itself.
    pub fn own(&self) -> &uc_policy::Agent {
        &self.own
    }

    /// Returns the policy in force; `None` before the first.
    pub fn policy(&self) -> Option<&Policy> {
        self.in_force.as_ref().map(|valid| &valid.policy)
    }

    /// Returns the checksum of the policy in force; `None` before the first.
    pub fn hash(&self) -> Option<&str> {
        self.in_force.as_ref().map(|valid| valid.hash.as_str())
    }

    /// Returns whether the policy is a fleet's, from etcd.
    pub fn is_fleet(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns etcd's newest valid policy, whether it is in force or waits; `None` before the first.
    pub fn newest(&self) -> Option<&Valid> {
        let waiting = self.unconfirmed.as_ref().map(|(_, valid)| valid);
        self.kept.as_ref().and(waiting.or(self.in_force.as_ref()))
    }

    /// Puts a former policy of etcd into force again. The policy in force until now waits as if it had just been read.
    /// Returns whether the former policy is in force now.
    pub fn go_back(&mut self, former: Kept, state: &mut AgentState, reader: &Reader<'_>) -> bool {
        let origin = Origin {
            source: PolicySource::Etcd,
            place: former.key,
            revision: Some(former.revision),
        };
        let policy = match Policy::parse_fleet(&origin.name(), &former.text) {
            Ok(policy) => policy,
            Err(error) => {
                // only if another version of this program stored it
                tracing::error!(%error, "the former policy is not valid any more; this one stays");
                return false;
            }
        };
        let tried = Origin {
            source: PolicySource::Etcd,
            place: origin.place.clone(),
            revision: state.policy.revision,
        };
        let tried = self.in_force.clone().map(|valid| (tried, valid));
        let former = Valid::new(policy, former.text);
        let waiting = self.unconfirmed.take();
        if let Err(why) = self.put_in_force(origin, former, state, reader) {
            tracing::error!(why, "the former policy stays out of force");
            self.unconfirmed = waiting;
            return false;
        }
        self.unconfirmed = waiting.or(tried);
        true
    }

    /// Returns whether the policy may name ports by guests' names of libvirt or CNI.
    pub fn names_guests(&self) -> bool {
        let text = self.in_force.as_ref().map(|valid| valid.text.as_str());
        text.is_some_and(has_guests_names)
    }

    /// Puts the policy with this checksum into force, which waits for an operator's confirmation.
    ///
    /// # Errors
    /// No such policy waits.
    pub fn confirm(
        &mut self,
        hash: &str,
        state: &mut AgentState,
        reader: &Reader<'_>,
    ) -> Result<(), String> {
        match self.unconfirmed.take() {
            Some((origin, valid)) if valid.hash == hash => {
                self.put_in_force(origin, valid, state, reader)
            }
            Some(other) => {
                let text = format!(
                    "no policy with this checksum waits; the one that waits has checksum {}",
                    other.1.hash
                );
                self.unconfirmed = Some(other);
                Err(text)
            }
            None => Err(
                "no policy waits for `uc confirm`; `uc status` shows the policy in force"
                    .to_owned(),
            ),
        }
    }

    /// Judges etcd's waiting policy again, because the ports may have changed or become known since. Returns whether
    /// the policy is in force now. (A policy of a file is judged when the file is read again.)
    pub fn judge_again(&mut self, state: &mut AgentState, reader: &Reader<'_>) -> bool {
        match self.unconfirmed.take_if(|_| self.kept.is_some()) {
            Some((origin, valid)) => self.admit(origin, valid, state, reader),
            None => false,
        }
    }

    /// Reads the configuration again. `asked`: an operator or a signal asked for it. Returns whether another policy is
    /// in force now.
    pub fn read_file(&mut self, asked: bool, state: &mut AgentState, reader: &Reader<'_>) -> bool {
        let place = self.config.display().to_string();
        let text = match uc_files::read(&self.config) {
            Ok(text) => text,
            // An editor may be between two steps; the next change or request reads the file again.
            Err(error) => {
                refuse(PolicySource::File, place, vec![error.to_string()], state);
                return false;
            }
        };
        if text == self.text && !asked && state.reload.accepted {
            return false;
        }
        self.text.clone_from(&text);
        let parsed = reader.notify.meanwhile(|| Policy::parse(&place, &text));
        let policy = match parsed {
            Ok(policy) => policy,
            Err(error) => {
                // one of etcd's that waits has nothing to do with the file
                self.unconfirmed.take_if(|_| self.kept.is_none());
                refuse(PolicySource::File, place, faults(&error), state);
                return false;
            }
        };
        if policy.agent != self.own {
            tracing::warn!("[agent] has changed: restart the agent to apply it");
        }
        if self.kept.is_some() || policy.agent.etcd.is_some() {
            // Whether the policy comes from the file or from etcd was decided at the start.
            accept(PolicySource::File, place, state);
            return false;
        }
        let origin = Origin {
            source: PolicySource::File,
            place,
            revision: None,
        };
        let differs = self.in_force.as_ref().is_none_or(|old| old.text != text);
        if differs {
            return self.admit(origin, Valid::new(policy, text), state, reader);
        }
        self.unconfirmed = None;
        accept(origin.source, origin.place, state);
        false
    }

    /// Processes an event of etcd. Returns whether another policy is in force now.
    pub fn hear(&mut self, heard: Heard, state: &mut AgentState, reader: &Reader<'_>) -> bool {
        let Some((_, key)) = self.kept.clone() else {
            return false;
        };
        let etcd = state.etcd.get_or_insert_default();
        match heard {
            Heard::Connected { revision } => {
                if !etcd.connected {
                    tracing::info!(revision, "etcd is connected");
                }
                etcd.connected = true;
                etcd.error = None;
                etcd.revision = etcd.revision.max(revision);
                false
            }
            Heard::Lost { error } => {
                if etcd.connected || etcd.error.is_none() {
                    tracing::warn!(
                        error,
                        "etcd is not connected; the last policy stays in force"
                    );
                }
                etcd.connected = false;
                etcd.error = Some(error);
                state.counts.etcd_losses += 1;
                false
            }
            Heard::Missing { revision } => {
                etcd.revision = etcd.revision.max(revision);
                self.unconfirmed = None;
                let text = format!("{key} has no value at revision {revision}; put a policy there");
                refuse(PolicySource::Etcd, key, vec![text], state);
                false
            }
            Heard::NoText { revision } => {
                etcd.revision = etcd.revision.max(revision);
                self.unconfirmed = None;
                let text = format!(
                    "{key} has no policy at revision {revision}: its value is not UTF-8 text, or longer than 1 MiB"
                );
                refuse(PolicySource::Etcd, key, vec![text], state);
                false
            }
            Heard::Policy { text, revision } => {
                etcd.revision = etcd.revision.max(revision);
                let origin = Origin {
                    source: PolicySource::Etcd,
                    place: key,
                    revision: Some(revision),
                };
                self.take(origin, text, state, reader)
            }
        }
    }

    /// Puts a text into force if it is a valid policy and nothing delays it. Returns whether another policy is in force
    /// now.
    fn take(
        &mut self,
        origin: Origin,
        text: String,
        state: &mut AgentState,
        reader: &Reader<'_>,
    ) -> bool {
        let name = origin.name();
        self.unconfirmed = None;
        let parsed = reader
            .notify
            .meanwhile(|| Policy::parse_fleet(&name, &text));
        match parsed {
            Err(error) => {
                refuse(origin.source, name, faults(&error), state);
                false
            }
            Ok(policy) => {
                let differs = self.in_force.as_ref().is_none_or(|old| old.text != text);
                if differs {
                    return self.admit(origin, Valid::new(policy, text), state, reader);
                }
                // An unchanged text with a new revision.
                state.policy.source = origin.source;
                state.policy.revision = origin.revision;
                self.unkept = self.keep(&origin, &text).err();
                accept(origin.source, name, state);
                false
            }
        }
    }

    /// Puts a valid policy into force unless it must wait for this host's turn or an operator's confirmation. Returns
    /// whether it is in force now.
    fn admit(
        &mut self,
        origin: Origin,
        valid: Valid,
        state: &mut AgentState,
        reader: &Reader<'_>,
    ) -> bool {
        self.unconfirmed = None;
        let turn = match origin.source {
            PolicySource::Etcd => (reader.turn)(&valid, self.hash()),
            _ => Ok(()),
        };
        let refused = match turn {
            Ok(()) => (reader.judge)(&valid.policy, &valid.text).err(),
            Err(Halt::Worse(why)) => Some(why),
            Err(Halt::Waits(why)) => {
                let hash = &valid.hash;
                tracing::debug!(hash, why, "a policy waits; the one in force stays");
                accept(origin.source, origin.name(), state);
                self.unconfirmed = Some((origin, valid));
                return false;
            }
        };
        if let Some(why) = refused {
            let error = format!("{why}; if that is meant, run `uc confirm {}`", valid.hash);
            refuse(origin.source, origin.name(), vec![error], state);
            self.unconfirmed = Some((origin, valid));
            return false;
        }
        let (from, name) = (origin.source, origin.name());
        if let Err(why) = self.put_in_force(origin, valid, state, reader) {
            refuse(from, name, vec![why], state);
            return false;
        }
        true
    }

    /// Stores etcd's policy in force if it could not be stored before. Returns whether it is stored.
    pub fn keep_again(&mut self) -> bool {
        if let (Some(revision), Some(valid)) = (self.unkept, &self.in_force) {
            let origin = Origin {
                source: PolicySource::Etcd,
                place: String::new(),
                revision: Some(revision),
            };
            self.unkept = self.keep(&origin, &valid.text).err();
        }
        self.unkept.is_none()
    }

    /// Stores a policy of etcd for an agent that starts while etcd does not answer. Does nothing for a policy of
    /// another source.
    ///
    /// # Errors
    /// The policy's revision, if it could not be stored.
    fn keep(&self, origin: &Origin, text: &str) -> Result<(), i64> {
        let (Some((path, key)), PolicySource::Etcd) = (&self.kept, origin.source) else {
            return Ok(());
        };
        let kept = Kept {
            key: key.clone(),
            revision: origin.revision.unwrap_or_default(),
            text: text.to_owned(),
        };
        kept.write(path).map_err(|error| {
            tracing::warn!(%error, "etcd's policy is in force, but couldn't be stored");
            kept.revision
        })
    }

    /// Puts a policy into force. If it must not come into force, returns the reason, and the policy waits.
    fn put_in_force(
        &mut self,
        origin: Origin,
        valid: Valid,
        state: &mut AgentState,
        reader: &Reader<'_>,
    ) -> Result<(), String> {
        if let Some((_, key)) = &self.kept {
            let former = self.in_force.as_ref().map(|before| Kept {
                key: key.clone(),
                revision: state.policy.revision.unwrap_or_default(),
                text: before.text.clone(),
            });
            let is_kept = origin.source == PolicySource::Kept;
            let mut unkept = None;
            let mut keep = || {
                unkept = self.keep(&origin, &valid.text).err();
                unkept.is_none()
            };
            if let Err(why) = (reader.follow)((&valid, former, is_kept), &mut keep) {
                self.unconfirmed = Some((origin, valid));
                return Err(why);
            }
            self.unkept = unkept;
        }
        state.policy = PolicyState {
            source: origin.source,
            place: origin.place.clone(),
            revision: origin.revision,
            hash: valid.hash.clone(),
            generation: state.policy.generation + 1,
            since_unix_s: unix_s(),
            plan: None,
            rule_lines: rule_lines(&valid.policy),
        };
        state.counts.reloads += 1;
        let (generation, place) = (state.policy.generation, origin.place.clone());
        tracing::info!(
            generation,
            place,
            revision = origin.revision,
            "a policy is valid; it is applied to the ports"
        );
        accept(origin.source, origin.place, state);
        self.in_force = Some(valid);
        Ok(())
    }
}

/// Returns whether a policy's text may name ports by guests' names of libvirt or CNI.
pub fn has_guests_names(text: &str) -> bool {
    text.contains("libvirt:") || text.contains("cni:")
}

#[cfg(test)]
mod tests;
