//! Which link has the next event: a tournament among all links.
//!
//! A link has at most one next event, and it changes at nearly every packet. A tournament tree lets
//! it change in place, one comparison for each doubling of the links, where a heap would pop and
//! push, or keep stale entries.

use std::hint::select_unpredictable;

use crate::units::Nanos;

/// Time in the upper and sequence in the lower half: one comparison orders both.
pub(crate) type Key = u128;

/// The key of a link that has no event.
pub(crate) const NEVER: Key = Key::MAX;

/// The key of the event `sequence` at time `at`.
pub(crate) fn key(at: Nanos, sequence: u64) -> Key {
    Key::from(at.0) << 64 | Key::from(sequence)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entrant {
    key: Key,
    link: u32,
}

/// The next event of every link.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// The winner at 1; below node n its two rivals at 2n and 2n + 1; the links in the last half.
    rounds: Vec<Entrant>,
}

impl Agenda {
    /// An agenda for `links` links without events.
    pub(crate) fn new(links: usize) -> Agenda {
        let leaves = links.next_power_of_two().max(2);
        let rounds = vec![
            Entrant {
                key: NEVER,
                link: 0
            };
            2 * leaves
        ];
        let mut agenda = Agenda { rounds };
        for (link, leaf) in (0..).zip(&mut agenda.rounds[leaves..]) {
            leaf.link = link;
        }
        agenda
    }

    /// Sets the next event of a link; [`NEVER`] for none.
    #[inline]
    pub(crate) fn set(&mut self, link: u32, key: Key) {
        let mut node = self.rounds.len() / 2 + link as usize;
        let mut winner = Entrant { key, link };
        self.rounds[node] = winner;
        while node > 1 {
            let rival = self.rounds[node ^ 1];
            // Kept in registers and chosen without a branch, which no predictor could guess.
            let beaten = rival.key < winner.key;
            winner.key = select_unpredictable(beaten, rival.key, winner.key);
            winner.link = select_unpredictable(beaten, rival.link, winner.link);
            node /= 2;
            if self.rounds[node] == winner {
                return;
            }
            self.rounds[node] = winner;
        }
    }

    /// The earliest event's time and link.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Nanos, u32)> {
        let winner = self.rounds[1];
        (winner.key != NEVER).then_some((Nanos((winner.key >> 64) as u64), winner.link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn the_first_is_the_least_of_all_after_every_change() {
        let seed = 5;
        let mut random = Stream::new(seed, "agenda");
        for links in [0usize, 1, 2, 3, 7, 8, 100] {
            let mut agenda = Agenda::new(links);
            let mut keys = vec![NEVER; links];
            assert_eq!(agenda.first(), None);
            for step in 0..if links == 0 { 0 } else { 2_000 } {
                let link = random.below(links as u64) as usize;
                // Unique keys, as sequences make them; one change in four empties the link.
                keys[link] = match random.below(4) {
                    0 => NEVER,
                    _ => key(Nanos(random.below(50)), step),
                };
                agenda.set(link as u32, keys[link]);
                let least = keys
                    .iter()
                    .zip(0u32..)
                    .min()
                    .filter(|(key, _)| **key != NEVER);
                let expected = least.map(|(key, link)| (Nanos((key >> 64) as u64), link));
                assert_eq!(
                    agenda.first(),
                    expected,
                    "seed {seed}, {links} links, step {step}"
                );
            }
        }
    }
}
