//! Live tests in virtual machines.
//!
//! `scripts/test-lanes` runs each file in a process of its own, one after the other.

mod common;

mod live_vm_run;
