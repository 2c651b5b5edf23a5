//! What must hold for trials of policies after any mishap: a stored policy on trial is stored with its trial, and no
//! policy is found good before it was tried for its whole time.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use uc_client::AgentState;
use uc_client::state::Verdict;
use uc_faults::{World, inside};
use uc_policy::Policy;

use super::policy::HOST;
use crate::stored_policy::Kept;

/// Folder of the agent's state.
const FOLDER: &str = "/var/lib/undercurrent";
/// Duration of a trial.
const TRIAL: Duration = Duration::from_secs(60);

/// The verdicts of this host's agents.
#[derive(Debug, Default)]
pub struct Trials {
    /// When the agent's process began; `None`: none runs.
    began: Option<Instant>,
    /// Checksums of the policies that were found good.
    good: BTreeSet<String>,
}

impl Trials {
    /// Records that a process of the agent begins, and the verdicts that the process before it stored.
    pub fn begin(&mut self, world: &mut World) {
        self.began = Some(inside(world, Instant::now));
        let said: Vec<Verdict> = inside(world, || {
            serde_json::from_value(read("canary.json")?.get_mut("said")?.take()).ok()
        })
        .unwrap_or_default();
        let good = said.into_iter().filter(|said| said.worse.is_none());
        self.good.extend(good.map(|said| said.hash));
    }

    /// Checks the stored files, and the verdicts in an agent's state.
    pub fn check(&mut self, world: &mut World, state: Option<&AgentState>) -> Result<(), String> {
        let said = state.and_then(|state| state.canary.as_ref());
        let now = inside(world, Instant::now);
        for Verdict { hash, worse } in said.map_or(&[][..], |canary| &canary.said) {
            let is_new = worse.is_none() && self.good.insert(hash.clone());
            if is_new && self.began.is_none_or(|began| now < began + TRIAL) {
                return Err(format!(
                    "policy {hash} is good after a shorter time than a trial"
                ));
            }
        }
        match inside(world, stored) {
            Some((hash, of_rollout)) => is_known(&hash, &of_rollout),
            None => Ok(()),
        }
    }
}

/// Returns the content of a file in the agent's state folder; `None` if it is absent.
fn read(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(Path::new(FOLDER).join(name)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns the checksum of the stored policy and the stored state of the rollout; `None` if this host need not try the
/// policy.
fn stored() -> Option<(String, Value)> {
    let kept: Kept = serde_json::from_value(read("policy.json")?).ok()?;
    let canary = Policy::parse_fleet("policy", &kept.text).ok()?.canary?;
    let rollout = read("canary.json").unwrap_or_default();
    canary
        .hosts
        .iter()
        .any(|host| host == HOST)
        .then(|| (kept.hash(), rollout))
}

/// Checks that the policy with this checksum was tried, or is on trial.
fn is_known(hash: &str, rollout: &Value) -> Result<(), String> {
    let said = rollout["said"].as_array().into_iter().flatten();
    let of_it = |said: &&Value| said["hash"] == hash;
    let lost = |said: &Value| {
        said["worse"]
            .as_str()
            .is_some_and(|why| why.contains("canary.json"))
    };
    match said.clone().find(of_it) {
        Some(said) if lost(said) => Err(format!("the trial of policy {hash} is lost")),
        Some(_) => Ok(()),
        // an agent that was to try another one instead ended before it had stored that
        None if rollout["trial"].is_object() || rollout["base"]["hash"] == hash => Ok(()),
        None => Err(format!(
            "policy {hash} is stored without its trial: {rollout}"
        )),
    }
}
