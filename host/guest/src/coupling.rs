//! ctrlTCP across virtual machines: the host's coupled congestion controller (CCC), whose members
//! are guests that couple their own connections, and the channel between them. `docs/ctrltcp.md`
//! describes both under "Across VMs".
//!
//! Read in this order:
//! - [`wire`], [`frames`]: the protocol of a channel.
//! - [`validate`]: validation of a guest's reports.
//! - [`host`]: the host's groups, without a clock or a socket.
//! - [`report`]: a guest's report of a group.
//! - [`guest`]: the guest's end of a channel, without a clock or a socket.
//! - [`sockets`]: opening of the guests' sockets, which may need more rights than the rest.
//! - [`channel`], `guest_channel`, [`serve`]: descriptors, and the host's loop over them.

pub mod channel;
mod error;
pub mod frames;
pub mod guest;
mod guest_channel;
pub mod host;
pub mod report;
pub mod serve;
mod setup;
pub mod sockets;
pub mod validate;
pub mod wire;

pub use guest_channel::{REPORTS_PER_SECOND, Refusal};
pub use setup::{GuestSetup, Place};
