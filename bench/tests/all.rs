//! Tests that only compute.

mod common;

mod compare;
mod draw;
mod figures;
mod named_files;
mod packetdrill;
mod records;
mod reproduce;
mod seeds;
mod shards;
mod sim_run;
mod verify;
