//! What a guest that breaks the rules of TCP may do, with random parameters.

use serde::{Deserialize, Serialize};
use uc_core::consts;
use uc_net::random::Stream;

use crate::games::{MSS, of_any_size};

/// Minimum size of the segments into which a plan cuts data, in bytes. Headers of smaller segments take
/// noticeably more of the link; an honest guest that writes little at a time does that, too.
const MSS_LEAST: u64 = 1_000;

/// What hides a frame from the port's parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Disguise {
    /// Nothing: the port reads the whole header.
    None,
    /// The packet is cut into IP fragments.
    Fragment,
    /// IPv6 extension headers come before TCP.
    Extension,
    /// Headers contradict their own lengths, in a way that the receiver tolerates.
    Malformed,
}

/// How the guest opens its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Greeting {
    /// A SYN with MSS, window scale and SACK.
    Plain,
    /// A SYN that offers ECN (RFC 3168); the guest then ignores the echoes.
    Ecn,
    /// A SYN that offers Accurate ECN (RFC 9768).
    Accurate,
    /// A SYN with the option of Multipath TCP.
    Multipath,
    /// A SYN without window scale: the guest's port then has no scale to write windows with.
    Unscaled,
    /// A SYN that does not offer SACK.
    Unsacked,
    /// A SYN behind this many others that reach nobody, each with other options.
    Decoys(u8),
}

/// One way to break a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trick {
    /// Sends this many segments beyond the guest's windows, as long as the port lets them pass.
    Overrun(u16),
    /// Keeps at least this many segments in flight, as long as the port lets them pass.
    Flood(u16),
    /// Ignores its own congestion control during loss recovery: it sends all that windows allow.
    Reckless,
    /// Cuts its data into segments of this many bytes.
    Small(u16),
    /// Sets ACK numbers this far from the right one in all segments that the guest sends.
    FalseAcks(u32),
    /// Sets TCP flags and an ECN codepoint in all segments that the guest sends.
    Signals(u8, u8),
    /// Sends its data in a disguise.
    Hidden(Disguise),
    /// The guest sends nothing.
    Silent,
    /// The guest retransmits nothing on its own.
    Stubborn,
    /// Retransmits the segment that lies this many segments beyond the first unacknowledged one.
    Repeat(u16),
    /// Leaves a gap of this many segments in what it sends.
    Gap(u8),
    /// Sends a frame with this many bytes of data that claims to consist of segments of the second number of bytes.
    Giant(u16, u16),
    /// Sends this many segments of new data that the port sees and the peer never gets.
    Ghosts(u8),
    /// Sends this many segments beyond the guest's windows, after a gap of the second number of segments.
    Jump(u8, u16),
    /// Sends a SYN whose sequence number is this far from the right one; true: the peer never gets it.
    Syn(u32, bool),
    /// Sends a SYN-ACK whose sequence and ACK numbers are this far from the right ones; true: the peer never gets it.
    SynAck(u32, u32, bool),
    /// Sends a RST whose sequence number is this far from the right one; the peer never gets it.
    Reset(u32),
    /// Sends a FIN whose sequence number is this far from the right one; the peer never gets it.
    Fin(u32),
    /// Sends an ACK without data, whose sequence and ACK numbers are this far from the right ones, with this window.
    Ack(u32, u32, u16),
    /// Lets the guest's host hand the flow over to another host, whose clock is this many units of 128 µs ahead of the
    /// game's. Flows on the other host have the layout of the second number.
    Move(u32, u32),
}

/// Draws a distance in sequence numbers: often small, sometimes any.
fn distance(random: &mut Stream) -> u32 {
    let bits = random.below(32);
    let far = random.bits32() >> bits;
    match random.below(4) {
        0 => 0,
        1 => far,
        2 => far.wrapping_neg(),
        _ => (random.below(40) as u32).wrapping_sub(20).wrapping_mul(MSS),
    }
}

impl Greeting {
    /// Draws the kind of the guest's SYN at random.
    pub fn draw(random: &mut Stream) -> Greeting {
        match random.below(10) {
            0 => Greeting::Ecn,
            1 => Greeting::Accurate,
            2 => Greeting::Multipath,
            3 => Greeting::Unscaled,
            4 => Greeting::Decoys(1 + random.below(5) as u8),
            5 => Greeting::Unsacked,
            _ => Greeting::Plain,
        }
    }
}

impl Trick {
    /// The number of kinds of tricks.
    pub const KINDS: u64 = 20;

    /// Draws a trick of any kind.
    pub fn draw(random: &mut Stream) -> Trick {
        let kind = random.below(Trick::KINDS);
        Trick::draw_of(kind, random)
    }

    /// Draws the parameters of a trick of a kind below [`Trick::KINDS`].
    pub fn draw_of(kind: u64, random: &mut Stream) -> Trick {
        match kind {
            0 => Trick::Overrun(1 + of_any_size(random, 9) as u16),
            1 => Trick::Reckless,
            2 => Trick::Small((MSS_LEAST + random.below(u64::from(MSS) - MSS_LEAST)) as u16),
            3 => Trick::FalseAcks(distance(random)),
            4 => {
                let signals = consts::ECE | consts::CWR | consts::PSH;
                let flags = random.bits32() & signals;
                Trick::Signals(flags as u8, random.below(4) as u8)
            }
            5 => Trick::Hidden(match random.below(3) {
                0 => Disguise::Fragment,
                1 => Disguise::Extension,
                _ => Disguise::Malformed,
            }),
            6 => Trick::Silent,
            7 => Trick::Repeat(of_any_size(random, 6) as u16),
            8 => Trick::Giant(
                MSS as u16 * (2 + random.below(43) as u16),
                1 + random.below(65_000) as u16,
            ),
            9 => Trick::Ghosts(1 + random.below(20) as u8),
            10 => Trick::Jump(1 + random.below(4) as u8, of_any_size(random, 12) as u16),
            11 => Trick::Syn(distance(random), random.below(2) == 0),
            12 => Trick::SynAck(distance(random), distance(random), random.below(2) == 0),
            13 => Trick::Reset(distance(random)),
            14 => Trick::Fin(distance(random)),
            15 => Trick::Flood(1 + of_any_size(random, 9) as u16),
            16 => Trick::Gap(1 + random.below(3) as u8),
            17 => Trick::Stubborn,
            18 => Trick::Move(of_any_size(random, 33) as u32, random.bits32()),
            _ => Trick::Ack(distance(random), distance(random), random.bits32() as u16),
        }
    }

    /// Draws other parameters for the same kind of trick.
    #[must_use]
    pub fn redrawn(self, random: &mut Stream) -> Trick {
        let is_same =
            |other: &Trick| std::mem::discriminant(other) == std::mem::discriminant(&self);
        let mut drawn = (0..Trick::KINDS).map(|kind| Trick::draw_of(kind, random));
        drawn.find(is_same).unwrap_or(self)
    }

    /// Returns whether the trick is repeated while it is in force; false: it changes all that the guest does meanwhile.
    #[must_use]
    pub fn is_repeated(self) -> bool {
        use Trick::{
            FalseAcks, Flood, Hidden, Overrun, Reckless, Signals, Silent, Small, Stubborn,
        };
        !matches!(
            self,
            Overrun(_)
                | Flood(_)
                | Reckless
                | Small(_)
                | FalseAcks(_)
                | Signals(..)
                | Hidden(_)
                | Silent
                | Stubborn
        )
    }

    /// Returns whether strict ports see no data of the guest while the trick is in force.
    #[must_use]
    pub fn is_silence(self) -> bool {
        matches!(self, Trick::Silent | Trick::Hidden(_))
    }

    /// Returns whether each repetition of the trick takes room on the link and brings nothing new to the peer.
    #[must_use]
    pub fn takes_volume(self) -> bool {
        matches!(
            self,
            Trick::Repeat(_)
                | Trick::Jump(..)
                | Trick::Ack(..)
                | Trick::Syn(_, false)
                | Trick::SynAck(_, _, false)
        )
    }
}
