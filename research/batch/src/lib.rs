//! All runs of an experiment: lists them, divides them into parts for several machines, stores them on disk, decides
//! when they are enough, and writes the files that report them. A backend makes each run; the simulator's is here
//! ([`sim`]).

mod again;
pub mod circumstances;
mod finished;
mod laws;
mod ledger;
pub mod memory;
mod merge;
pub mod outputs;
mod points;
mod pool;
mod request;
mod rounds;
mod shard;
pub mod sim;
mod stored;
mod sweep;
mod task;

pub use finished::Finished;
pub use laws::Laws;
pub use ledger::{Head, Ledger, RUNS, line_of, records_of};
pub use merge::merge;
pub use points::keep_points;
pub use pool::Pool;
pub use request::{Request, quoted};
pub use rounds::Rounds;
pub use shard::Shard;
pub use sweep::Sweep;
pub use task::{Task, cancelled, tasks};
