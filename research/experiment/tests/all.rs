//! The integration tests of this crate in one program, which is compiled and linked once.

mod common;

mod committed_files;
mod comparisons;
mod couplings;
mod dupacks;
mod histograms;
mod holds;
mod hypervisors;
mod kept;
mod lateness;
mod measures;
mod named_files;
mod overrides;
mod points;
mod ratios;
mod reference;
mod sawtooth;
mod senseless_files;
mod senseless_laws;
mod senseless_simulations;
mod senseless_sweeps;
mod slower;
mod starts;
mod statistics;
mod tracking;
mod transfers;
mod trends;
mod unreadable_files;
mod verdicts;
