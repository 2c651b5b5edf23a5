//! Split connections: the host ends a guest's TCP connection itself and opens a second one to the far
//! end, which runs any congestion control of the host's kernel, or Multipath TCP. Both ends see each
//! other's addresses and ports. `docs/split.md` describes it.
//!
//! Read in this order:
//! - [`Setup`], [`Status`]: what is split; the process's report.
//! - `setup`: the setup that threads share, and limits.
//! - [`rules`], `programs`: the packet filter's table and the route that bring packets to this process.
//! - [`interfaces`], [`check()`]: whether this host can split connections.
//! - `side`, `sockets`: the options of the sockets; an end that is not orderly is a reset.
//! - `pipes`, `half`: one direction of a connection: bytes go from socket to pipe to socket.
//! - `quota`: how many connections each guest may have.
//! - `connection`: both directions of a connection, and how it ends.
//! - `worker`, [`split`]: threads that wait for sockets; counts of what they did.
//! - `seen`: whether a connection is split.

mod check;
mod connection;
mod counts;
mod error;
mod half;
pub mod interfaces;
mod pipes;
mod programs;
mod quota;
pub mod rules;
mod seen;
mod setup;
mod side;
mod sockets;
pub mod split;
mod worker;

pub use check::{check, check_host};
pub use error::SplitError;
pub use rules::clean;
pub use seen::is_split;
pub use setup::limits;
pub use split::Split;
pub use uc_service::ServiceError;
pub use uc_service::commands::split::{Done, Limits, PortRange, Setup, Status, Totals};

/// Drawback of split connections for a guest, as a text for messages.
pub const CAVEAT: &str = "an ACK that the guest gets is this host's, not the far end's: what the far end has \
     not acknowledged is lost if the far end, this host or this process fails";
