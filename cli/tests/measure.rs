//! Live tests that measure.
//!
//! `scripts/test-lanes` runs each file in a process of its own, one after the other.

mod common;

mod live_acdc;
mod live_coupled;
mod live_dctcp;
mod live_delay;
mod live_ecn_harms;
mod live_guard;
mod live_offload;
mod live_parity;
mod live_reopen;
mod live_share;
mod live_split_figures;
mod live_watch_faster;
mod live_watch_granter;
mod live_watch_late;
mod live_wire;
