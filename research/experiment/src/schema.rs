//! The experiment file as a whole: how it is read, and how single keys are overridden.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::case::Case;
use crate::error::Error;
use crate::expect::Expectation;
use crate::network::Network;
use crate::place::{Changed, Origin};
use crate::stack::Stack;
use crate::sweep::Sweep;
use crate::units::Nanos;
use crate::{named_files, overrides, place};

/// Default of `repeat_max`, as a multiple of the number of runs of every case.
pub const REPEATS: u32 = 4;

/// Default of `late_max`, a part of the empty round trip. Beyond it the emulator's own delay is no longer small against
/// the path's.
const LATE_MAX: f64 = 0.5;

/// Name of the stack that the receivers of data run.
pub const SERVER_STACK: &str = "server";

/// An experiment: a network, the stacks, the cases, and the expectations.
///
/// Read it with [`Experiment::load`], override keys with [`Experiment::apply_set`], and call
/// [`Experiment::validate`] before running it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name of the form `paper/figure`.
    pub name: String,
    /// Title in one line.
    pub title: String,
    /// Source: paper, venue, figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Backends on which the experiment can be run; all that its keys allow if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arms: Option<Vec<Arm>>,
    /// Length of one run.
    pub duration: Nanos,
    /// Length of the first part of a run, which is not measured. Default 0s.
    #[serde(default)]
    pub settle: Nanos,
    /// Length of the last part of a run, which is not measured. Default 0s.
    #[serde(default)]
    pub tail: Nanos,
    /// Interval at which the state of every flow is sampled. Default 100 ms.
    #[serde(default = "default_sample")]
    pub sample: Nanos,
    /// Number of runs of every case. Default 1.
    #[serde(default = "default_repeat")]
    pub repeat: u32,
    /// Number of runs of every case in the simulator, where a run costs little; `repeat` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_sim: Option<u32>,
    /// Maximum number of runs of a case: as long as expectations are undecided, further runs are made up to it. See
    /// [`Experiment::repeats_max`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_max: Option<u32>,
    /// Part of the empty round trip that late frames of an emulated network may add in the mean; a run
    /// beyond it does not count, see [`Experiment::why_late`]. Default 0.5.
    #[serde(
        default = "default_late_max",
        skip_serializing_if = "is_default_late_max"
    )]
    pub late_max: f64,
    /// Factor by which all times are longer and all rates lower on real kernels in namespaces, so that a
    /// machine carries them: [`Experiment::slowed`]. Default 1.
    #[serde(default = "default_slower", skip_serializing_if = "is_default_slower")]
    pub slower: u32,
    /// Network of all cases: `[network]`.
    pub network: Network,
    /// TCP settings by name: `[stack.NAME]`; `server` is the receivers'.
    #[serde(default, rename = "stack")]
    pub stacks: BTreeMap<String, Stack>,
    /// Cases of the experiment: `[[case]]`.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
    /// Axes of the sweep: `[[sweep]]`.
    #[serde(default, rename = "sweep")]
    pub sweeps: Vec<Sweep>,
    /// Expectations of the results: `[[expect]]`.
    #[serde(default, rename = "expect")]
    pub expects: Vec<Expectation>,
    /// Where each value stands in the file, for errors with line and column.
    #[serde(skip)]
    pub(crate) origin: Origin,
}

fn default_sample() -> Nanos {
    Nanos(100_000_000)
}

fn default_repeat() -> u32 {
    1
}

fn default_late_max() -> f64 {
    LATE_MAX
}

fn is_default_late_max(part: &f64) -> bool {
    *part == LATE_MAX
}

fn default_slower() -> u32 {
    1
}

fn is_default_slower(factor: &u32) -> bool {
    *factor == 1
}

impl Experiment {
    /// Returns the number of runs of every case on this backend.
    pub fn repeats(&self, arm: Arm) -> u32 {
        match arm {
            Arm::Sim => self.repeat_sim.unwrap_or(self.repeat),
            Arm::Live | Arm::Vm => self.repeat,
        }
    }

    /// Returns the maximum number of runs of a case on this backend: `repeat_max`, but at least the runs of
    /// [`Experiment::repeats`]. By default [`REPEATS`] times these, but 1 if they are 1.
    pub fn repeats_max(&self, arm: Arm) -> u32 {
        let runs = self.repeats(arm);
        let usual = if runs == 1 {
            1
        } else {
            runs.saturating_mul(REPEATS)
        };
        self.repeat_max.unwrap_or(usual).max(runs)
    }

    /// Reads the experiment file at `path`, and the files that it names. Does not check whether the values make sense:
    /// see [`Experiment::validate`].
    ///
    /// # Errors
    /// [`Error::Read`], or [`Error::Parse`] with file, line and column.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::from_str(&path.display().to_string(), &named_files::read(path)?)
    }

    /// Reads an experiment from `text`; errors call the text `name`.
    ///
    /// # Errors
    /// [`Error::Parse`] with name, line and column.
    pub fn from_str(name: &str, text: &str) -> Result<Self, Error> {
        let mut experiment: Self =
            toml::from_str(text).map_err(|error| place::parse_error(name, text, &error))?;
        experiment.origin = Origin::new(name, text);
        Ok(experiment)
    }

    /// Overrides one key: `network.rate=100Mbit`, `repeat=3`, `case.virtual.guests.legacy.law=ecn`.
    /// Members of a list are named by their `name`, or by their number from 0.
    ///
    /// # Errors
    /// [`Error::Set`] if the key is unknown or the value does not fit; the experiment is then as it
    /// was.
    pub fn apply_set(&mut self, text: &str) -> Result<(), Error> {
        let (mut changed, key) = overrides::apply(self, text)?;
        changed.origin = self.origin.clone();
        let set = Changed::Set(text.to_owned());
        changed.origin.changed.push((key, set));
        *self = changed;
        Ok(())
    }

    /// Iterates over the overrides as they were given, in the order of their application.
    pub fn overrides(&self) -> impl Iterator<Item = &str> {
        let changed = self.origin.changed.iter();
        changed.filter_map(|(_, changed)| match changed {
            Changed::Set(text) => Some(text.as_str()),
            Changed::Sweep(_) => None,
        })
    }

    /// Returns the measured part of a run: from `settle` to `duration` − `tail`, in nanoseconds.
    pub fn measured_ns(&self) -> std::ops::Range<u64> {
        self.settle.0..self.duration.0.saturating_sub(self.tail.0)
    }

    /// Returns the case of that name; `None` if the experiment has no such case.
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Returns the network of a case: that of the experiment, with the queue that the case names.
    pub fn network_of(&self, case: &Case) -> Network {
        let mut network = self.network.clone();
        if let Some(queue) = &case.queue {
            network.queue = queue.clone();
        }
        network
    }

    /// Returns the TCP settings of a case's receivers: the stack that it names, or
    /// `[stack.server]`, or the defaults with ECN granted.
    pub fn receiver_stack(&self, case: &Case) -> Stack {
        let default = || Stack {
            ecn: true,
            ..Stack::default()
        };
        self.stacks
            .get(case.receiver.as_deref().unwrap_or(SERVER_STACK))
            .cloned()
            .unwrap_or_else(default)
    }
}
