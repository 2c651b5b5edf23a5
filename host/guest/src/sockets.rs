//! What this host's kernel knows of its guests' TCP sockets, where guests share the kernel:
//! containers, network namespaces.
//!
//! - [`Tenants`]: finds the network namespace behind each port;
//! - [`KernelSocket`]: congestion window, slow-start threshold and round-trip time of a socket in it.
//!
//! The values are those of `TCP_INFO`, which the kernel copies under the socket's lock, asked for by
//! sock_diag(7) with the ends of one connection. So a request costs one lookup in the kernel's table
//! of sockets, whatever the number of sockets, and needs no program in the kernel and no BTF.

mod error;
mod socket;
mod tenants;

pub use error::{Absent, SocketError};
pub use socket::KernelSocket;
pub use tenants::Tenants;
