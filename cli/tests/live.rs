//! Other live tests.
//!
//! `scripts/test-lanes` runs each file in a process of its own, one after the other.

mod common;

mod law_build;
mod live_blocks;
mod live_couple;
mod live_detach;
mod live_drain;
mod live_dupack;
mod live_floods;
mod live_forged;
mod live_forgotten;
mod live_guest;
mod live_half_blind;
mod live_handover;
mod live_hold;
mod live_hold_repairs;
mod live_killed;
mod live_local_users;
mod live_neighbours;
mod live_odd_ports;
mod live_passing;
mod live_rules;
mod live_seeing;
mod live_split;
mod live_split_inbound;
mod live_split_killed;
mod live_split_one_port;
mod live_split_refused;
mod live_strict;
mod live_truth;
mod live_tune;
mod live_watch;
mod live_watch_granter_gone;
mod live_watch_http;
mod live_watch_killed;
mod live_watch_pace;
mod refusals;
mod write_a_law;
