//! Tests that only compute.

mod common;

mod check;
mod docs;
mod docs_commands;
mod docs_run_by;
mod moved;
mod outputs;
mod virsh_migrate;
mod watch_refusals;
