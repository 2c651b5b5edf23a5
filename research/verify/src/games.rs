//! Games of a guest that breaks the rules of TCP against its port and its neighbours, on a virtual clock.
//!
//! Guests behind ports of the deployed core share a link that marks. One of them, the adversary, follows a [`Plan`] of
//! [`Trick`]s, whose times are counted in ticks, ACKs, parts of a round trip, or cuts of its window. Its reward is its
//! goodput, the bytes that an honest receiver acknowledges within a fixed time, or what its neighbours lose. A search
//! keeps the best plans, changes and mixes them. Games of an honest guest in the adversary's place, in the same
//! network, give the numbers to compare with.
//!
//! Read in this order:
//! 1. [`trick`], [`plan`]: what the adversary may do, and when.
//! 2. [`behaviour`], [`sender`], [`guest`]: a TCP in user space that sends anything; [`peer`]: its honest
//!    receiver. Segments in, segments out, no clock and no socket.
//! 3. [`port`], [`network`], [`game`]: the core on a guest's port, the link, and one game.
//! 4. [`judge`], [`campaign`]: games against the bars. [`corpus`]: the best plans found so far.
//!    [`mod@table`]: what each trick gains alone.

pub mod behaviour;
pub mod campaign;
pub mod corpus;
pub mod game;
pub mod guest;
pub mod judge;
pub mod network;
pub mod peer;
pub mod plan;
pub mod port;
pub mod sender;
pub mod table;
pub mod trick;

pub use campaign::{Campaign, Chain, Tried};
pub use game::{Goodput, Ports, play, play_on};
pub use judge::Standing;
pub use network::Network;
pub use plan::{Clock, Plan, Timed};
pub use port::Guard;
pub use trick::{Disguise, Greeting, Trick};

/// The largest payload of a segment in bytes, to which both ends agree.
pub const MSS: u32 = 1_448;
/// Length of a tick in nanoseconds: the time in which the link carries one full segment.
pub const TICK_NS: u64 = 100_000;
/// Length of a game in ticks: 2 s, in which the link carries 20,000 segments.
pub const TICKS: u64 = 20_000;

/// Returns whether sequence number `a` lies after `b`; numbers wrap.
#[must_use]
pub fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// Draws a number of less than `bits` bits, 1 to 64; small and large ones are as frequent.
fn of_any_size(random: &mut uc_net::random::Stream, bits: u64) -> u64 {
    let bits = random.below(bits);
    random.below(1 << bits)
}
