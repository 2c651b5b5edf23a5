//! All runs of an experiment: which there are, whether they fit into memory, and the files that
//! report them. How a run is made is a backend's affair; the simulator's is here.

pub mod memory;
pub mod outputs;
mod points;
pub mod sim;
mod task;

pub use points::keep_points;
pub use task::{Task, cancelled};
