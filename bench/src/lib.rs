//! The researcher's commands: experiments, the demo and the theorems.

pub mod arms;
pub mod batch;
pub mod compare;
pub mod demo;
pub mod merge;
pub mod packetdrill;
pub mod records;
pub mod reproduce;
pub mod run;
pub mod traces;
pub mod verify;
mod whole;
