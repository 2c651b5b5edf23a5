//! Target `sim`: a host with sockets on the endpoints of `uc_tcp`, on a virtual clock.
//!
//! The host has one peer at a time: what arrives belongs to the connection opened last, whoever
//! opened it. A connection's earlier ports are not reached any more.

mod calls;
mod command;
mod ends;
mod host;
mod settings;
mod sockets;

pub use host::Host;
