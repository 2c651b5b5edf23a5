//! The next event of every link, in a tournament tree.
//!
//! A link has at most one next event, and it changes at nearly every packet. A tournament tree
//! changes it in place, with one comparison for each doubling of the number of links, where a heap
//! would pop and push, or keep stale entries.

use uc_words::Nanos;

/// The sort key of an event: time (ns) in the upper 64 bits, below it the sequence, and the link
/// number in the lowest [`LINK_BITS`] bits. One integer comparison orders events.
pub(crate) type Key = u128;

/// The key of a link that has no event.
pub(crate) const NEVER: Key = Key::MAX;

/// Width of the link number. The sequence has the other 44 bits of the lower half, enough for a
/// week of computing, and then wraps to 0.
const LINK_BITS: u32 = 20;

/// Maximum number of links in an agenda.
pub(crate) const LINKS_MAX: usize = 1 << LINK_BITS;

/// Returns the key of event `sequence` at time `at` on `link`.
#[inline]
pub(crate) fn key(at: Nanos, sequence: u64, link: u32) -> Key {
    Key::from(at.0) << 64 | Key::from(sequence << LINK_BITS | u64::from(link))
}

/// Returns the time of an event.
#[inline]
pub(crate) fn time(key: Key) -> Nanos {
    Nanos((key >> 64) as u64)
}

/// Returns the link of an event.
#[inline]
pub(crate) fn link(key: Key) -> u32 {
    key as u32 & ((1 << LINK_BITS) - 1)
}

/// The next event of every link.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// The tree: the winner at index 1, the children of node n at 2n and 2n + 1, the links in the
    /// last half.
    rounds: Vec<Key>,
}

impl Agenda {
    /// Creates an agenda for `links` links without events.
    pub(crate) fn new(links: usize) -> Agenda {
        let leaves = links.next_power_of_two().max(2);
        Agenda {
            rounds: vec![NEVER; 2 * leaves],
        }
    }

    /// Returns the earliest event, or [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn first(&self) -> Key {
        self.rounds[1]
    }

    /// Sets the next event of a link; [`NEVER`] for none.
    #[inline]
    pub(crate) fn set(&mut self, link: u32, key: Key) {
        let mut node = self.rounds.len() / 2 + link as usize;
        if self.rounds[node] == key {
            return;
        }
        if key < self.rounds[node] {
            return self.advance(node, key);
        }
        let mut winner = key;
        self.rounds[node] = winner;
        while node > 1 {
            let rival = self.rounds[node ^ 1];
            // This compiles to a branch, and should: most links are idle or far from their next
            // event, so the branch is predicted well. A chain of conditional moves would wait for
            // every level in turn.
            winner = winner.min(rival);
            node /= 2;
            self.rounds[node] = winner;
        }
    }

    /// Propagates an event that became earlier up the tree, to the first node whose event comes
    /// before it.
    #[inline]
    fn advance(&mut self, mut node: usize, key: Key) {
        while node > 0 && key < self.rounds[node] {
            self.rounds[node] = key;
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn first_returns_the_earliest_event_after_every_change() {
        let seed = 5;
        let mut random = Stream::new(seed, "agenda");
        for links in [0usize, 1, 2, 3, 7, 8, 100] {
            let mut agenda = Agenda::new(links);
            let mut keys = vec![NEVER; links];
            assert_eq!(agenda.first(), NEVER);
            for step in 0..if links == 0 { 0 } else { 2_000 } {
                let place = random.below(links as u64) as usize;
                // One change in four empties the link.
                keys[place] = match random.below(4) {
                    0 => NEVER,
                    _ => key(Nanos(random.below(50)), step, place as u32),
                };
                agenda.set(place as u32, keys[place]);
                let least = *keys.iter().min().unwrap();
                let shown = format!("seed {seed}, {links} links, step {step}");
                assert_eq!(agenda.first(), least, "{shown}");
                if least != NEVER {
                    assert_eq!(keys[link(least) as usize], least, "{shown}");
                    assert!(time(least) < Nanos(50), "{shown}");
                }
            }
        }
    }
}
