//! The integration tests of this crate in one program, which is compiled and linked once.

mod ahead;
mod common;

mod fat_tree;
mod links;
mod network_laws;
mod networks;
mod queues;
mod random;
mod red_parameters;
mod shapes;
mod stepping;
