//! The commands of the cargo feature `agent`, which is on by default: `uc agent`, `uc law` and
//! `uc top`. A build without the feature, such as that of `make demo`, leaves out more than half of
//! all crates.
//!
//! No other file tests for the feature.

#[cfg(feature = "agent")]
mod build;
#[cfg(feature = "agent")]
mod daemon;
#[cfg(any(test, not(feature = "agent")))]
mod left_out;
#[cfg(feature = "agent")]
mod screen;

#[cfg(not(feature = "agent"))]
pub use left_out::{agent, law, top};
#[cfg(feature = "agent")]
pub use {build::law, daemon::agent, screen::top};
