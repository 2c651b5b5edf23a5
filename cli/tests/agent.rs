//! Live tests of the agent, its services and its package.
//!
//! `scripts/test-lanes` runs each file in a process of its own, one after the other.

mod common;
mod unnoticed;

mod live_agent;
mod live_agent_dupack;
mod live_agent_faults;
mod live_agent_fleet;
mod live_agent_handover;
mod live_agent_hold;
mod live_agent_killed;
mod live_agent_service;
mod live_agent_split;
mod live_agent_tune;
mod live_agent_upgrade;
mod live_confined;
mod live_docs;
mod live_package;
mod live_systemd;
