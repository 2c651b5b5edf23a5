//! `uc`'s commands, as a library so that tests can use its parts.

pub mod batch;
pub mod demo;
pub mod live;
pub mod outputs;
pub mod ports;
pub mod run;
