//! Experiments: the file, the record of a run, and the evaluation of records.
//!
//! Every backend (real kernels or a virtual clock) reads the same file into an [`Experiment`],
//! writes a [`RunRecord`] per run, and is judged by the same measures and expectations, so that the
//! backends check one another.
//!
//! - [`units`]: rates, durations and sizes as they are written, with their unit.
//! - [`schema`], [`network`], [`stack`], [`case`], [`coupling`], [`hypervisor`], [`pattern`],
//!   [`application`], [`sweep`], [`arm`], [`named_files`]: the file; laws, parameters and starts are `uc_law`'s.
//! - [`arrivals`]: random start times and sizes, for every backend.
//! - `slower`: a file of fast links on real kernels.
//! - [`layout`]: the file's network in `uc_net`, for every backend.
//! - [`error`]: errors in a file, with place and remedy; [`wording`]: their form.
//! - [`record`], [`histogram`], [`law_event`]: the results of one run.
//! - [`measure`], [`values`], [`repetition`], [`series`], [`sawtooth`], [`statistic`]: the numbers computed
//!   from a record, and [`measure_error`]: why one can't be computed.
//! - [`expect`], [`basis`], [`estimate`], [`ratio`], [`outcome`], [`verdict`]: the claims about their means
//!   over the runs, where their bars come from, and the verdicts; [`reproduced`]: what a verdict tells of the
//!   paper; [`continuation`]: the runs that undecided verdicts need.
//! - [`kept`]: the values that are kept of an experiment's runs, in `results/`; [`comparison`]: two
//!   such records compared, run by run.

pub mod application;
pub mod arm;
pub mod arrivals;
pub mod basis;
pub mod case;
pub mod comparison;
pub mod continuation;
pub mod coupling;
pub mod dupack;
pub mod error;
pub mod estimate;
pub mod expect;
pub mod histogram;
pub mod hold;
pub mod hypervisor;
pub mod kept;
pub mod lateness;
pub mod law_event;
pub mod layout;
pub mod measure;
pub mod measure_error;
pub mod named_files;
pub mod network;
pub mod outcome;
mod overrides;
pub mod pattern;
mod place;
mod queue_length;
pub mod ratio;
pub mod record;
pub mod repetition;
pub mod reproduced;
pub mod sawtooth;
pub mod schema;
mod selection;
pub mod series;
mod setup_hash;
mod slower;
pub mod stack;
pub mod statistic;
pub mod sweep;
mod validate;
pub mod values;
pub mod verdict;

pub use application::{Application, Listed, Sizes};
pub use arm::Arm;
pub use arrivals::{Arrivals, exponential};
pub use basis::Basis;
pub use case::{Case, Guests};
pub use comparison::{Change, Compared, Comparison, LeftOut, Side};
pub use continuation::{Continuation, continuation};
pub use coupling::Coupling;
pub use dupack::Dupack;
pub use error::Error;
pub use estimate::Estimate;
pub use expect::{Bound, Claim, Direction, Expectation, Labels};
pub use histogram::Histogram;
pub use hold::{Hold, HoldBuffer};
pub use hypervisor::{Hypervisor, Migration, Pvtcp, RttFilter};
pub use kept::{Circumstances, Head, KeptError, KeptMeasure, KeptRecord, Sitting};
pub use lateness::{Lateness, why_late};
pub use law_event::{LawEvent, LawEventKind};
pub use measure::{Alpha, Event, Measure, OfGroup, QueueUnit, SharedBy};
pub use measure_error::{MeasureError, Which};
pub use network::{Family, Network, NotEct, Queue, Topology};
pub use outcome::Outcome;
pub use pattern::Pattern;
pub use queue_length::QueueLength;
pub use record::{
    ACK_GAP_BIN, Completion, FlowRecord, FlowSample, LinkTotals, QueueSample, RunRecord, Stalls,
};
pub use repetition::Repetition;
pub use reproduced::Reproduced;
pub use schema::Experiment;
pub use stack::{Frto, Reduction, Stack};
pub use statistic::Statistic;
pub use sweep::{Point, Sweep};
pub use uc_law::{
    CouplingRules, Faults, GroupSize, Law, Parameters, Profile, Shares, StartLaw, Value, Watch,
    keys, start_keys,
};
pub use uc_words::{BitsPerSec, Bytes, Nanos};
pub use uc_words::{units, wording};
pub use values::{Row, Values};
pub use verdict::{Evaluation, Step, Unjudged, Verdict, evaluate, judge};
