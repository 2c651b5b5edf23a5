//! The kernel's values of the TCP sockets of guests that share this host's kernel: containers, network namespaces.
//!
//! - [`Tenants`]: finds the network namespace behind each port;
//! - [`KernelSocket`]: congestion window, slow-start threshold and round-trip time of a socket in such a namespace.
//!
//! The values are those of `TCP_INFO`, which the kernel copies under the socket's lock. They are requested through
//! sock_diag(7) by the two ends of one connection. So a request costs one lookup in the kernel's table of sockets,
//! whatever the number of sockets, and needs no program in the kernel and no BTF.

mod error;
mod socket;
mod tenants;

pub use error::{Absent, SocketError};
pub use socket::KernelSocket;
pub use tenants::Tenants;
