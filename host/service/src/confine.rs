//! Processes without rights: a part of Undercurrent that reads bytes of guests or strangers runs in a
//! process of its own, which keeps no right of root's. A fault in its parser then reaches what that
//! process was given, and nothing else of the host.
//!
//! - [`Confined`]: starts this program once more, with a socket as its standard input.
//! - [`enter`]: gives the rights up, before the first such byte is read. [`gets_on`]: is called by its
//!   loop, without which the kernel ends it.
//! - [`send`], [`receive`]: messages of the two processes. What the confined process may read, the other
//!   one opens for it, and sends it the descriptor.

mod calls;
mod child;
mod message;
mod rights;

pub use child::{Confined, parent};
pub use message::{receive, send};
pub use rights::{close_others, enter, gets_on};
