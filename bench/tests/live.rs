//! Other live tests.
//!
//! `scripts/test-lanes` runs each file in a process of its own, one after the other.

mod common;

mod captures;
mod live_examples;
mod live_fair_share;
mod live_reproduce;
mod live_run;
mod pages;
mod refusals;
