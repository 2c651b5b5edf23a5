//! An operator's policy for the ports of a host: one TOML file, or the same text under a fleet's
//! key.
//!
//! - [`file`], [`agent`], [`CanaryTable`], [`DupackTable`], [`HoldTable`], [`SplitTable`], [`TuneTable`]: the file's
//!   tables and keys as they are written, and its JSON Schema.
//! - [`list`], [`pattern`], [`range`], [`dscp`], and the kernel's own [`uc_core::rule::Prefix`]:
//!   lists and their elements.
//! - [`Policy::parse`]: the policy with defaults applied (a [`Tenant`] has a number, a [`Rule`] its
//!   matches and its [`Treatment`]), or every [`Fault`] of the text with its place and its remedy.
//! - [`Policy::plan_for`]: the plan for one port, in the form that its programs take.

mod absolute;
pub mod agent;
mod canary;
mod check;
mod control;
mod defaults;
pub mod dscp;
mod dupack;
mod effort;
mod fault;
pub mod file;
mod hold;
pub mod list;
mod log;
mod number;
mod parse;
pub mod pattern;
mod plan;
mod policy;
mod prefix;
pub mod range;
mod read;
mod required;
mod rule;
mod size;
mod split;
mod switch;
mod tenant;
mod treatment;
mod tune;

pub use agent::{
    Agent, DEFAULT_ETCD_KEY, DEFAULT_METRICS, DEFAULT_SOCKET, DEFAULT_STATE, Etcd, WatchHost,
};
pub use canary::{Canary, CanaryTable};
pub use dupack::{Dupack, DupackKey, DupackTable};
pub use fault::{Fault, PolicyError};
pub use file::PolicyFile;
pub use hold::{Hold, HoldKey, HoldTable};
pub use log::{LogFormat, check_log_filter};
pub use pattern::Pattern;
pub use plan::Planned;
pub use policy::Policy;
pub use rule::Rule;
pub use split::{Split, SplitTable};
pub use switch::Switch;
pub use tenant::{PortSettings, Tenant};
pub use treatment::{DEFAULT_ECN_SYNS, Treatment};
pub use tune::{Cgroups, Tune, TuneTable};

/// Returns the JSON Schema of the policy file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(PolicyFile).to_value()
}
