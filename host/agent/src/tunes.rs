//! Keeps the control groups that the policy names tuned, as `uc tune` does. A tuning is pinned, so it outlives the
//! agent. The agent does not change a tuning that an operator made.
//!
//! Control groups come and go without notification, so the agent looks for them every two seconds while the
//! policy names some.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use uc_client::state::{TuneState, TunedGroup};
use uc_guest::{GuestError, Tuning, TuningState, Tunings, hierarchy};
use uc_policy::{Cgroups, Policy, Tune};

/// Interval at which control groups are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Maximum number of control groups that a policy's patterns may match on a host.
const GROUPS_MAX: usize = 4096;

/// The control groups to be tuned: the tenant of each, and the settings that it should have.
type Wanted = BTreeMap<PathBuf, (String, Tuning)>;

/// The state of the tunings that the policy wants on this host.
#[derive(Debug)]
pub struct Tunes {
    tunings: Tunings,
    /// Tenants with tuned containers; `None`: no policy has been in force yet, and existing tunings stay.
    wanted: Option<Vec<(String, Tune)>>,
    /// When control groups were looked for last; `None`: never since the last change of the policy.
    looked: Option<Instant>,
    state: TuneState,
}

impl Tunes {
    /// Creates the state of the host's tunings, before any policy.
    pub fn new() -> Self {
        Self {
            tunings: Tunings::default(),
            wanted: None,
            looked: None,
            state: TuneState::default(),
        }
    }

    /// Tunes the containers of this policy's tenants from now on; `None`: an operator has detached all ports,
    /// so all tunings by policy are removed.
    pub fn want(&mut self, policy: Option<&Policy>) {
        let tenants = policy.iter().flat_map(|policy| &policy.tenants);
        let wanted = tenants.filter_map(|tenant| Some((tenant.name.clone(), tenant.tune.clone()?)));
        let wanted = Some(wanted.collect());
        if wanted != self.wanted {
            (self.wanted, self.looked) = (wanted, None);
        }
    }

    /// Returns whether control groups must be looked for repeatedly: the policy names some, or the last pass failed.
    fn is_active(&self) -> bool {
        let has_tenants = self
            .wanted
            .as_ref()
            .is_some_and(|wanted| !wanted.is_empty());
        has_tenants || !self.state.is_in_force()
    }

    /// Returns the longest time between two calls of [`Tunes::look_after`].
    pub fn interval(&self) -> Duration {
        match self.is_active() {
            true => LOOK_EVERY,
            false => Duration::MAX,
        }
    }

    /// Does nothing until [`LOOK_EVERY`] after the last pass. Then looks for control groups, tunes those that the
    /// policy names, and removes the policy's other tunings.
    pub fn look_after(&mut self) {
        let is_due = |looked: Instant| self.is_active() && looked.elapsed() >= LOOK_EVERY;
        let Some(wanted) = self
            .wanted
            .as_ref()
            .filter(|_| self.looked.is_none_or(is_due))
        else {
            return;
        };
        self.looked = Some(Instant::now());
        let mut state = TuneState::default();
        if let Err(error) = keep(&self.tunings, wanted, &mut state) {
            state.error = Some(error.to_string());
        }
        let before = std::mem::replace(&mut self.state, state);
        let TuneState { error, refused, .. } = &self.state;
        if let Some(error) = error.as_ref().filter(|_| *error != before.error) {
            tracing::error!(error, "containers are not tuned as the policy wants");
        }
        for (cgroup, why) in refused {
            if before.refused.get(cgroup) != Some(why) {
                tracing::error!(cgroup, why, "a container is not tuned as the policy wants");
            }
        }
    }

    /// Returns the state of the policy's tunings; `None` if the policy names no control groups and the last pass had no
    /// error.
    pub fn state(&self) -> Option<TuneState> {
        self.is_active().then(|| self.state.clone())
    }
}

/// Adds and removes tunings by policy until they are as the tenants want, and records the result in `state`.
fn keep(
    tunings: &Tunings,
    tenants: &[(String, Tune)],
    state: &mut TuneState,
) -> Result<(), GuestError> {
    let wanted = match tenants.is_empty() {
        true => Wanted::new(),
        false => groups(&hierarchy()?, tenants, state),
    };
    let mut kept = BTreeSet::new();
    for old in tunings.all()?.iter().filter(|old| old.by_policy) {
        let path = Path::new(&old.cgroup);
        let is_same = |(_, tuning): &(String, Tuning)| *tuning == old.tuning;
        if wanted.get(path).is_some_and(is_same) {
            kept.insert(path.to_owned());
        } else {
            tunings.remove(path)?;
            tracing::info!(cgroup = old.cgroup, "a container is not tuned any more");
        }
    }
    for (path, (_, tuning)) in wanted.iter().filter(|(path, _)| !kept.contains(*path)) {
        match tunings.add_by_policy(path, tuning) {
            Ok(cgroup) => {
                tracing::info!(cgroup, ?tuning, "a container's new connections are tuned")
            }
            Err(error) => {
                let path = path.display().to_string();
                state.refused.insert(path, error.to_string());
            }
        }
    }
    let group = |now: TuningState| {
        let wanted = wanted.get(Path::new(&now.cgroup)).filter(|_| now.by_policy);
        let (tenant, _) = wanted?;
        let refused = [
            now.refused_congestion_control,
            now.refused_initial_window,
            now.refused_rto_min,
        ];
        Some(TunedGroup {
            tenant: tenant.clone(),
            cgroup: now.cgroup,
            connections: now.connections,
            refused: refused.iter().sum(),
        })
    };
    state.groups = tunings.all()?.into_iter().filter_map(group).collect();
    Ok(())
}

/// Returns the control groups of this hierarchy that are to be tuned. If two tenants name the same group, the first
/// gets it, and `state` records that the second is refused.
fn groups(root: &Path, tenants: &[(String, Tune)], state: &mut TuneState) -> Wanted {
    let mut wanted = Wanted::new();
    for (tenant, tune) in tenants {
        let tuning = Tuning {
            congestion_control: tune.congestion_control.clone(),
            initial_window_segments: tune.initial_window,
            rto_min: tune.rto_min.map(|rto| Duration::from_nanos(rto.0)),
        };
        for path in tune.cgroups.iter().flat_map(|cgroups| found(root, cgroups)) {
            if wanted.len() >= GROUPS_MAX {
                let why = format!(
                    "the policy's patterns match more than {GROUPS_MAX} groups; make them narrower"
                );
                state.refused.insert(path.display().to_string(), why);
                return wanted;
            }
            let other = wanted.get(&path).filter(|(other, _)| other != tenant);
            if let Some((other, _)) = other {
                let why = format!(
                    "it matches patterns of tenants {other} and {tenant}, and a control group has one tenant, \
                     here {other}; make a pattern narrower"
                );
                state.refused.insert(path.display().to_string(), why);
            } else {
                wanted.insert(path, (tenant.clone(), tuning.clone()));
            }
        }
    }
    wanted
}

/// Returns the folders that match the policy's patterns, in order.
fn found(root: &Path, cgroups: &Cgroups) -> Vec<PathBuf> {
    let mut paths = vec![root.to_owned()];
    for part in cgroups.parts() {
        let below = |path: PathBuf| match part.contains('*') {
            true => matching(&path, part),
            false => Some(path.join(part))
                .filter(|path| path.is_dir())
                .into_iter()
                .collect(),
        };
        paths = paths.into_iter().flat_map(below).collect();
    }
    paths
}

/// Returns the folders directly in `folder` whose names match the pattern `part`, in order.
fn matching(folder: &Path, part: &str) -> Vec<PathBuf> {
    // One that has ended meanwhile has none.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let is_named = name
            .to_str()
            .is_some_and(|name| Cgroups::matches(part, name));
        is_named && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let mut found: Vec<PathBuf> = entries.filter(is_one).map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tune(cgroups: &str) -> Tune {
        let text = format!(
            "[[tenant]]\nname = \"a\"\nports = \"v\"\ntune = {{ cgroups = {cgroups}, initial_window = 20 }}\n"
        );
        let policy = Policy::parse("t.toml", &text).unwrap();
        policy.tenants[0].tune.clone().unwrap()
    }

    #[test]
    fn groups_are_found_by_their_paths_and_one_that_two_tenants_have_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for folder in [
            "machine.slice/web-1",
            "machine.slice/web-2",
            "machine.slice/db",
            "web-3",
        ] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("machine.slice/web-file"), "").unwrap();
        let below = |path: &PathBuf| {
            path.strip_prefix(root.path())
                .unwrap()
                .display()
                .to_string()
        };
        let of = |cgroups: &str| {
            let mut state = TuneState::default();
            let found = groups(root.path(), &[("a".into(), tune(cgroups))], &mut state);
            assert!(state.refused.is_empty());
            found.keys().map(below).collect::<Vec<_>>()
        };
        assert_eq!(
            of("\"machine.slice/web-*\""),
            ["machine.slice/web-1", "machine.slice/web-2"]
        );
        assert_eq!(of("\"*/db\""), ["machine.slice/db"]);
        assert_eq!(of("[\"web-3\", \"gone/*\", \"gone\"]"), ["web-3"]);
        let both = [
            ("a".into(), tune("\"machine.slice/web*\"")),
            ("b".into(), tune("\"*/web-2\"")),
        ];
        let mut state = TuneState::default();
        let found = groups(root.path(), &both, &mut state);
        assert_eq!(found.len(), 2);
        let refused: Vec<&String> = state.refused.values().collect();
        assert!(
            refused.len() == 1 && refused[0].contains("tenants a and b"),
            "{refused:?}"
        );
    }
}
