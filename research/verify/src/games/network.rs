//! The networks of games: one link that all guests share, which marks.

use std::collections::VecDeque;

use uc_core::{COMPILED, Core, DelayParameters, Law, Policy, Segment, consts, law};
use uc_net::random::Stream;

use crate::games::{MSS, TICK_NS, TICKS};

/// Ethernet, IPv4 and TCP headers without options, of each segment on the link.
const HEADER_BYTES: u64 = 54;
/// Size of a full segment on the link, in bytes.
pub const FULL_BYTES: u64 = MSS as u64 + HEADER_BYTES;

/// Length of a brief game in ticks, 150 ms: its guests have hardly left slow start.
const BRIEF_TICKS: u64 = 1_500;
/// What the name of a network with brief games begins with.
const BRIEF: &str = "brief:";

/// The network of a game: bottleneck, delays, policy and number of guests.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The seed from which the network was drawn.
    pub seed: u64,
    /// Delay in ticks from the link to the peer and back to the guest, without noise.
    pub delay_ticks: u64,
    /// Queue length in full segments from which the link marks ECT segments and drops all others; 0: it does neither.
    pub mark_segments: usize,
    /// Queue length in full segments from which the link drops all.
    pub limit_segments: usize,
    /// The number of honest guests beside the first.
    pub neighbours: usize,
    /// Whether peers acknowledge every second segment only.
    pub delayed_acks: bool,
    /// Length of a game in ticks.
    pub ticks: u64,
    /// The core of the guests' ports.
    pub core: Core,
    /// The policy of the guests' ports, without a guard.
    pub policy: Policy,
}

impl Network {
    /// Draws a network for a law.
    #[must_use]
    pub fn draw(law: Law, seed: u64) -> Network {
        let random = &mut Stream::new(seed, "network");
        let delay_ticks = 20 + random.below(80);
        let threshold = 10 + random.below(40) as usize;
        let neighbours = 1 + random.below(2) as usize;
        let profile = match random.below(2) {
            0 => consts::PROFILE_LINUX,
            _ => consts::PROFILE_RFC,
        };
        let marks = law.has(law::Trait::WANTS_ECN);
        let base_us = delay_ticks * TICK_NS / 1_000;
        let queue_us = threshold as u64 * TICK_NS / 1_000;
        let policy = Policy::new(law.number().into(), profile);
        Network {
            seed,
            delay_ticks,
            mark_segments: if marks { threshold } else { 0 },
            limit_segments: 4 * threshold + 100,
            neighbours,
            delayed_acks: random.below(2) == 0,
            ticks: TICKS,
            core: COMPILED,
            policy: if law == Law::DELAY {
                // a target that rises as the window falls: flows converge to equal shares
                policy.with_delay(DelayParameters {
                    target_us: (base_us + queue_us / 2) as u32,
                    range_us: (8 * queue_us) as u32,
                })
            } else {
                policy
            },
        }
    }

    /// Returns the network with brief games, which show what a connection gains that ends, or rests, before the law has
    /// taken back what the connection got at its start.
    #[must_use]
    pub fn brief(mut self) -> Network {
        self.ticks = BRIEF_TICKS;
        self
    }

    /// Returns whether the network's games are brief.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        self.ticks == BRIEF_TICKS
    }

    /// Draws the network with this name ([`Network::name`]); `None`: it is no network's name.
    #[must_use]
    pub fn named(law: Law, name: &str) -> Option<Network> {
        let seed = name.strip_prefix(BRIEF).unwrap_or(name);
        let network = Network::draw(law, seed.parse().ok()?);
        Some(match seed.len() < name.len() {
            true => network.brief(),
            false => network,
        })
    }

    /// Returns the network's name in a line of the corpus.
    #[must_use]
    pub fn name(&self) -> String {
        let prefix = if self.is_brief() { BRIEF } else { "" };
        format!("{prefix}{}", self.seed)
    }

    /// Returns the network with this profile.
    #[must_use]
    pub fn with_profile(mut self, profile: u32) -> Network {
        self.policy.profile = profile as u8;
        self
    }

    /// Returns the number of guests on the network.
    #[must_use]
    pub fn guests(&self) -> usize {
        1 + self.neighbours
    }

    /// Returns whether the guests' peers echo marks exactly.
    #[must_use]
    pub fn echoes_exactly(&self) -> bool {
        Law::of(&self.policy).has(law::Trait::EXACT)
    }
}

/// The link's queue; each entry is a guest's number and its segment.
#[derive(Clone, Debug, Default)]
pub struct Link {
    queue: VecDeque<(usize, Segment)>,
    queued_bytes: u64,
    /// Bytes that the link has had time to carry, and has not carried.
    credit_bytes: u64,
}

/// Returns the bytes of a segment on the link.
#[must_use]
pub fn wire_bytes(segment: &Segment) -> u64 {
    u64::from(segment.payload_bytes) + HEADER_BYTES
}

impl Link {
    /// Puts a segment of guest `of` into the queue, marked if the queue is long, or drops it.
    pub fn enqueue(&mut self, network: &Network, of: usize, mut segment: Segment) {
        let length = (self.queued_bytes / FULL_BYTES) as usize;
        if length >= network.limit_segments {
            return;
        }
        if network.mark_segments > 0 && length >= network.mark_segments {
            if u32::from(segment.ecn) == consts::NOT_ECT {
                return;
            }
            segment.ecn = consts::CE as u8;
        }
        self.queued_bytes += wire_bytes(&segment);
        self.queue.push_back((of, segment));
    }

    /// Advances the link by one tick.
    pub fn tick(&mut self) {
        self.credit_bytes = match self.queue.is_empty() {
            true => FULL_BYTES,
            false => self.credit_bytes + FULL_BYTES,
        };
    }

    /// Returns the next segment that the link has had time to carry, with its guest's number; `None`: there is none.
    pub fn carry(&mut self) -> Option<(usize, Segment)> {
        let (_, segment) = self.queue.front()?;
        let bytes = wire_bytes(segment);
        self.credit_bytes = self.credit_bytes.checked_sub(bytes)?;
        self.queued_bytes -= bytes;
        self.queue.pop_front()
    }
}
