//! The commands of the cargo features `agent` (`uc agent` and `uc law`) and `top` (`uc top`), which are
//! on by default. A build without them leaves out more than half of all crates.
//!
//! No other file tests for these features.

#[cfg(feature = "agent")]
mod build;
#[cfg(feature = "agent")]
mod daemon;
#[cfg(any(test, not(feature = "agent"), not(feature = "top")))]
#[allow(dead_code, reason = "a build may lack one of the features only")]
mod left_out;
#[cfg(feature = "top")]
mod screen;

#[cfg(not(feature = "top"))]
pub use left_out::top;
#[cfg(not(feature = "agent"))]
pub use left_out::{agent, law};
#[cfg(feature = "top")]
pub use screen::top;
#[cfg(feature = "agent")]
pub use {build::law, daemon::agent};
