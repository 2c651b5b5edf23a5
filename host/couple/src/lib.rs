//! ctrlTCP across virtual machines: the host's coupled congestion controller (CCC), whose members
//! are guests that couple their own connections, and the channel between them. `docs/ctrltcp.md`
//! describes both under "Across VMs".
//!
//! Read in this order:
//! - [`wire`], [`frames`]: the protocol of a channel.
//! - [`belief`]: validation of a guest's reports.
//! - [`host`]: the host's groups, without a clock or a socket.
//! - [`account`]: a guest's report of a group.
//! - [`guest`]: the guest's end of a channel, without a clock or a socket.
//! - [`doors`]: opening of the guests' sockets, which may need more rights than coupling them.
//! - [`channel`], [`seat`], [`serve`]: descriptors, and the host's loop over them.

pub mod account;
pub mod belief;
pub mod channel;
pub mod doors;
mod error;
pub mod frames;
pub mod guest;
pub mod host;
pub mod seat;
pub mod serve;
mod setup;
pub mod wire;
