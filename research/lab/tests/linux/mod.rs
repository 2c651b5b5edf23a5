//! Random flows between two Linux kernels, and the shadow of each beside its kernel's own TCP.
//!
//! Read in this order: [`case`], [`path`], [`frame`], [`world`], [`flow`], [`drive`], [`record`];
//! then [`follow`], [`class`], [`judge`] with `losses`, `undone` and `windows`, [`told`]; [`planted`].

pub mod case;
pub mod class;
pub mod drive;
pub mod flow;
pub mod follow;
pub mod frame;
pub mod judge;
mod losses;
pub mod path;
pub mod planted;
pub mod record;
pub mod told;
mod undone;
mod windows;
pub mod world;
