//! The integration tests of this crate in one program, which is compiled and linked once.

mod port;

mod buffer;
mod flows;
mod pace;
mod properties;
mod room;
