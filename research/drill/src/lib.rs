//! An interpreter of packetdrill's language: scripts of system calls and packets that say what a
//! host's TCP must do.
//!
//! [`parse()`] reads a script into the tree of [`syntax`]. [`run()`] plays it on a [`Target`], which
//! makes the calls, takes the packets and hands out what the host sends. [`sim::Host`] is such a
//! target: sockets on the endpoints of `uc_tcp`, on a virtual clock.

mod assert;
mod calls;
mod command;
mod compare;
mod constants;
mod cursor;
mod kernel_call;
mod memory;
mod parse;
mod run;
pub mod sim;
pub mod syntax;
mod tally;
pub mod target;
mod translate;
mod verdict;

pub use command::{Command, State, lacks};
pub use kernel_call::{Argument, KernelCall, Memory};
pub use parse::{parse, parse_with};
pub use run::run;
pub use syntax::{Error, Script};
pub use tally::Tally;
pub use target::Target;
pub use verdict::{Stop, Verdict};
