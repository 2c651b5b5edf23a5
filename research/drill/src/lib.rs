//! An interpreter of packetdrill's language: scripts of system calls and packets that say what a
//! host's TCP must do.
//!
//! [`parse()`] reads a script into the tree of [`syntax`].

mod cursor;
mod parse;
pub mod syntax;

pub use parse::parse;
pub use syntax::{Error, Script};
