//! What an operator decides about a port: its law with its parameters, how flows start, and whose
//! window they share.
//!
//! Which laws there are, and which parameters and settings, the core's tables say
//! (`core/laws/table.h`, `core/policy.h`, `core/watch/policy.h`). [`Chosen`] is what an operator
//! chose of such a table: keys of files, options, ranges and descriptions all follow from its rows.

mod coupling;
mod faults;
mod parameters;
mod plan;
mod profile;
mod start;
mod table;
mod table_file;

pub use coupling::{CouplingRules, GroupSize, PortCoupling, Shares, group_policy};
pub use faults::owner;
pub use parameters::{Parameters, policy};
pub use plan::{DEFAULT_FLOWS_MAX, PortPlan, RINGS_MAX};
pub use profile::Profile;
pub use start::{Data, StartLaw, StartSettings, Watch, watch_policy};
pub use table::{Chosen, Faults, Table, Value, words};
pub use uc_core::Law;
pub use uc_core::law::Trait;
pub use uc_core::parameter::{Kind, Row, keys, start_keys};
