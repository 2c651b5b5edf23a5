//! ctrlTCP across virtual machines: the host's coupled congestion controller (CCC), whose members
//! are guests that couple their own connections, and the channel between them. `docs/ctrltcp.md`
//! has the whole of it under "Across VMs".
//!
//! Read in this order:
//! - [`wire`], [`frames`]: what goes over a channel.
//! - [`belief`]: what of a guest's report the host believes.
//! - [`host`]: the host's groups, without a clock or a socket.
//! - [`account`]: what a guest reports of a group.
//! - [`guest`]: the guest's end of a channel, likewise.
//! - [`channel`], [`seat`], [`serve`]: descriptors, and the host's loop over them.

pub mod account;
pub mod belief;
pub mod channel;
pub mod frames;
pub mod guest;
pub mod host;
pub mod seat;
pub mod serve;
pub mod wire;
