//! The integration tests of this crate in one program, which is compiled and linked once.

mod pipe;
mod support;

mod garbage;
mod ignored_window;
mod lives;
mod newreno;
mod overruled;
mod queues;
mod receivers;
mod scripts;
mod stall;
mod transfers;
mod vegas;
mod windows;
