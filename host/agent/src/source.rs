//! The source of the policy in force. A new policy replaces it only if it is valid; otherwise the
//! old one stays, and the state has the new one's errors.
//!
//! If the configuration names etcd, the policy is the key's value; until etcd has answered, it is
//! the last stored one.

use std::path::PathBuf;

use uc_client::state::{EtcdState, PolicySource, PolicyState, ReloadState, unix_s};
use uc_client::{AgentError, AgentState};
use uc_policy::{Policy, PolicyError, trusted};
use uc_words::fnv::fnv1a;

use crate::etcd::Heard;
use crate::kept::Kept;

/// The source of the policy: the configuration file, or etcd with its stored copy.
#[derive(Debug)]
pub struct Source {
    config: PathBuf,
    /// Path of the stored copy of etcd's last valid policy, and its key.
    kept: Option<(PathBuf, String)>,
    /// Text of the configuration as last read, and its settings for the agent itself.
    text: String,
    own: uc_policy::Agent,
    /// The policy in force and its text.
    in_force: Option<(Policy, String)>,
}

impl Source {
    /// Reads the configuration, which must be valid.
    ///
    /// # Errors
    /// All errors of the text, or the error of reading it.
    pub fn open(config: PathBuf) -> Result<Self, AgentError> {
        let (policy, text) = Policy::load(&config)?;
        let own = policy.agent.clone();
        let kept = |etcd: &uc_policy::Etcd| (own.state.join("policy.json"), etcd.key.clone());
        Ok(Self {
            config,
            kept: own.etcd.as_ref().map(kept),
            text: text.clone(),
            in_force: own.etcd.is_none().then_some((policy, text)),
            own,
        })
    }

    /// Puts the first policy into force: the configuration's, or the stored copy of etcd's. With
    /// etcd and no copy there is none yet, and ports stay as an earlier agent left them.
    pub fn begin(&mut self, state: &mut AgentState) {
        let Some((path, key)) = &self.kept else {
            if let Some((policy, text)) = self.in_force.take() {
                let place = self.config.display().to_string();
                let origin = Origin {
                    source: PolicySource::File,
                    place,
                    revision: None,
                };
                self.put_in_force(origin, policy, text, state);
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
            self.take(origin, kept.text, state);
        }
    }

    /// Returns the file's settings for the agent itself.
    pub fn own(&self) -> &uc_policy::Agent {
        &self.own
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Option<&Policy> {
        self.in_force.as_ref().map(|(policy, _)| policy)
    }

    /// Returns whether the policy may name ports by guests' names of libvirt or CNI.
    pub fn names_guests(&self) -> bool {
        let text = self.in_force.as_ref().map_or("", |(_, text)| text);
        text.contains("libvirt:") || text.contains("cni:")
    }

    /// Reads the configuration again. Returns whether another policy is in force now.
    pub fn read_file(&mut self, asked: bool, state: &mut AgentState) -> bool {
        let place = self.config.display().to_string();
        let text = match trusted::read(&self.config) {
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
        let policy = match Policy::parse(&place, &text) {
            Ok(policy) => policy,
            Err(error) => {
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
        let differs = self.in_force.as_ref().is_none_or(|(_, old)| *old != text);
        if differs {
            self.put_in_force(origin, policy, text, state);
        } else {
            accept(origin.source, origin.place, state);
        }
        differs
    }

    /// Processes an event of etcd. Returns whether another policy is in force now.
    pub fn hear(&mut self, heard: Heard, state: &mut AgentState) -> bool {
        let Some((path, key)) = self.kept.clone() else {
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
                let text = format!("{key} has no value at revision {revision}; put a policy there");
                refuse(PolicySource::Etcd, key, vec![text], state);
                false
            }
            Heard::NoText { revision } => {
                etcd.revision = etcd.revision.max(revision);
                let text = format!("{key} is not text at revision {revision}, or too long");
                refuse(PolicySource::Etcd, key, vec![text], state);
                false
            }
            Heard::Policy { text, revision } => {
                etcd.revision = etcd.revision.max(revision);
                let origin = Origin {
                    source: PolicySource::Etcd,
                    place: key.clone(),
                    revision: Some(revision),
                };
                let changed = self.take(origin, text.clone(), state);
                let kept = Kept {
                    key,
                    revision,
                    text,
                };
                if reload_of(PolicySource::Etcd, state).accepted
                    && let Err(error) = kept.write(&path)
                {
                    tracing::warn!(%error, "etcd's policy is in force, but couldn't be stored");
                }
                changed
            }
        }
    }

    /// Puts a text into force if it is valid. Returns whether another policy is in force now.
    fn take(&mut self, origin: Origin, text: String, state: &mut AgentState) -> bool {
        let name = match origin.revision {
            Some(revision) => format!("{}@{revision}", origin.place),
            None => origin.place.clone(),
        };
        match Policy::parse_fleet(&name, &text) {
            Err(error) => {
                refuse(origin.source, name, faults(&error), state);
                false
            }
            Ok(policy) => {
                let differs = self.in_force.as_ref().is_none_or(|(_, old)| *old != text);
                if differs {
                    self.put_in_force(origin, policy, text, state);
                } else {
                    // An unchanged text with a new revision.
                    state.policy.source = origin.source;
                    state.policy.revision = origin.revision;
                    accept(origin.source, name, state);
                }
                differs
            }
        }
    }

    fn put_in_force(
        &mut self,
        origin: Origin,
        policy: Policy,
        text: String,
        state: &mut AgentState,
    ) {
        state.policy = PolicyState {
            source: origin.source,
            place: origin.place.clone(),
            revision: origin.revision,
            hash: format!("{:016x}", fnv1a(text.as_bytes())),
            generation: state.policy.generation + 1,
            since_unix_s: unix_s(),
            plan: None,
            rule_lines: rule_lines(&policy),
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
        self.in_force = Some((policy, text));
    }
}

/// Returns the lines of the rules by number: `[defaults]`, which come last, are number 0.
fn rule_lines(policy: &Policy) -> Vec<usize> {
    let (last, rules) = (policy.rules.last(), &policy.rules);
    let named = rules.iter().filter(|rule| rule.number > 0);
    last.into_iter()
        .chain(named)
        .map(|rule| rule.line)
        .collect()
}

struct Origin {
    source: PolicySource,
    place: String,
    revision: Option<i64>,
}

/// Returns the errors, one line each.
fn faults(error: &PolicyError) -> Vec<String> {
    match error.faults() {
        [] => vec![error.to_string()],
        faults => faults.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the part of the state that has the result of reading a policy from this source.
fn reload_of(source: PolicySource, state: &mut AgentState) -> &mut ReloadState {
    match (source, &mut state.etcd) {
        (PolicySource::Etcd | PolicySource::Kept, Some(etcd)) => &mut etcd.reload,
        _ => &mut state.reload,
    }
}

fn accept(source: PolicySource, place: String, state: &mut AgentState) {
    *reload_of(source, state) = ReloadState {
        at_unix_s: unix_s(),
        place,
        accepted: true,
        errors: Vec::new(),
    };
}

fn refuse(source: PolicySource, place: String, errors: Vec<String>, state: &mut AgentState) {
    let reload = reload_of(source, state);
    let is_news = reload.errors != errors;
    if is_news {
        for error in &errors {
            tracing::error!(place, error, "a policy is refused; the one in force stays");
        }
    }
    *reload = ReloadState {
        at_unix_s: unix_s(),
        place,
        accepted: false,
        errors,
    };
    state.counts.reloads_refused += u64::from(is_news);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[tenant]]\nname = \"acme\"\nports = [\"v*\"]\n";
    const BAD: &str = "[[tenant]]\nnmae = \"acme\"\n";

    #[test]
    fn reading_the_file_leaves_etcds_result_and_the_other_way_round() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("undercurrent.toml");
        let own = format!(
            "[agent]\nstate = {:?}\n[agent.etcd]\nendpoints = [\"http://127.0.0.1:9\"]\n",
            folder.path()
        );
        let write = |text: &str| std::fs::write(&config, text).unwrap();
        write(&own);
        let mut source = Source::open(config.clone()).unwrap();
        let mut state = AgentState::default();
        source.begin(&mut state);
        let accepted = |state: &AgentState| state.reads().map(|read| read.accepted).collect();
        let said: Vec<bool> = accepted(&state);
        assert_eq!(said, [true, false], "of etcd's nothing is known yet");

        let put = |revision, text: &str| Heard::Policy {
            text: text.to_owned(),
            revision,
        };
        for (news, expected) in [(GOOD, true), (BAD, false)] {
            source.hear(put(1, news), &mut state);
            source.read_file(true, &mut state);
            let said: Vec<bool> = accepted(&state);
            assert_eq!(said, [true, expected]);
        }
        write("[agent]\nsokcet = \"\"\n");
        source.read_file(false, &mut state);
        source.hear(put(2, GOOD), &mut state);
        let said: Vec<bool> = accepted(&state);
        assert_eq!(said, [false, true], "the file is refused still");
        write(&own);
        source.read_file(false, &mut state);
        let said: Vec<bool> = accepted(&state);
        assert_eq!(said, [true, true]);
    }
}
