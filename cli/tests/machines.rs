//! Live tests in virtual machines.
//!
//! `scripts/test-lanes` runs each file in a process of its own, one after the other.

mod common;
mod inside;

mod live_vm_couple;
mod live_vm_criu;
mod live_vm_machine;
mod live_vm_migrate;
mod live_vm_ports;
mod live_vm_pvtcp;
mod live_vm_pvtcp_bpf;
mod live_vm_pvtcp_load;
mod live_vm_pvtcp_module;
mod live_vm_pvtcp_quota;
mod live_vm_watch;
