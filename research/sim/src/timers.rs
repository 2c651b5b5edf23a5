//! All timers of all connections and applications, in the order of (time, sequence).
//!
//! A retransmission timer moves with nearly every ACK and hardly ever fires. So a timer is armed at
//! the earliest time requested since it last fired; at that time its owner is asked for its
//! deadline, and the timer is armed again if the deadline has moved on. An ACK that moves a
//! deadline back thus costs one comparison.
//!
//! The timers are the leaves of a tournament tree: arming a timer changes its leaf in place, so
//! there are no stale entries, and nothing is allocated while the number of timers stays.

use uc_net::Nanos;

/// Identifies a timer; from [`Timers::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(u32);

impl TimerId {
    /// Returns the timer's number, from 0 without gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The sort key of a timer: time in the upper half, sequence in the lower; one comparison orders
/// both.
type Key = u128;

const NEVER: Key = Key::MAX;

fn key(at: Nanos, sequence: u64) -> Key {
    Key::from(at.0) << 64 | Key::from(sequence)
}

fn time(key: Key) -> Nanos {
    Nanos((key >> 64) as u64)
}

/// All timers of a run.
#[derive(Clone, Debug)]
pub struct Timers {
    /// The tree: the first timer to fire at index 1, the children of node n at 2n and 2n + 1, the timers in the last
    /// half.
    rounds: Vec<(Key, u32)>,
    /// When each timer fires; the maximum if it isn't armed. A copy of the leaves' times, small enough
    /// to stay in the cache, since every packet asks for one.
    armed: Vec<Nanos>,
    /// When the first timer fires; the maximum if none is armed.
    next_at: Nanos,
    sequence: u64,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            rounds: vec![(NEVER, 0); 2],
            armed: Vec::new(),
            next_at: Nanos::MAX,
            sequence: 0,
        }
    }
}

impl Timers {
    /// Adds a timer that is not armed.
    pub fn add(&mut self) -> TimerId {
        let id = self.armed.len() as u32;
        self.armed.push(Nanos::MAX);
        if self.armed.len() > self.rounds.len() / 2 {
            self.grow();
        }
        TimerId(id)
    }

    /// Makes the timer fire no later than `deadline`; an earlier time requested before stays. `None` changes nothing.
    #[inline(always)]
    pub fn keep(&mut self, id: TimerId, deadline: Option<Nanos>) {
        let Some(deadline) = deadline else { return };
        if deadline < self.armed[id.index()] {
            self.arm(id, deadline);
        }
    }

    /// Makes the timer fire at `deadline`, in place of any time requested before; `None` disarms
    /// it.
    pub fn set(&mut self, id: TimerId, deadline: Option<Nanos>) {
        match deadline {
            Some(deadline) => self.arm(id, deadline),
            None => self.place(id, NEVER),
        }
    }

    /// Returns when the first timer fires; the maximum if none is armed.
    #[inline]
    pub fn next_at(&self) -> Nanos {
        self.next_at
    }

    /// Returns the timer that fires first, and when; `None` if none is armed.
    pub fn first(&self) -> Option<(Nanos, TimerId)> {
        let (key, id) = self.rounds[1];
        (key != NEVER).then_some((time(key), TimerId(id)))
    }

    #[inline(never)]
    fn arm(&mut self, id: TimerId, at: Nanos) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.place(id, key(at, sequence));
    }

    fn place(&mut self, id: TimerId, key: Key) {
        self.armed[id.index()] = time(key);
        self.play(id, key);
        self.next_at = time(self.rounds[1].0);
    }

    /// Sets the timer's leaf, and the winners of the rounds above it.
    fn play(&mut self, id: TimerId, key: Key) {
        let mut node = self.rounds.len() / 2 + id.index();
        let mut winner = (key, id.0);
        self.rounds[node] = winner;
        while node > 1 {
            let rival = self.rounds[node ^ 1];
            if rival.0 < winner.0 {
                winner = rival;
            }
            node /= 2;
            if self.rounds[node] == winner {
                return;
            }
            self.rounds[node] = winner;
        }
    }

    /// Doubles the number of leaves of the tree of timers.
    fn grow(&mut self) {
        let leaves = self.rounds.len() / 2;
        let old = self.rounds.split_off(leaves);
        self.rounds = vec![(NEVER, 0); 4 * leaves];
        for (id, (key, _)) in (0..).zip(old) {
            self.place(TimerId(id), key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_net::random::Stream;

    #[test]
    fn first_is_the_earliest_timer_and_among_equals_the_one_armed_first() {
        let seed = 11;
        let mut random = Stream::new(seed, "timers");
        for count in [1usize, 2, 3, 5, 8, 100] {
            let mut timers = Timers::default();
            let ids: Vec<TimerId> = (0..count).map(|_| timers.add()).collect();
            let mut expected: Vec<Option<(u64, u64)>> = vec![None; count];
            for step in 0..2_000 {
                let place = random.below(count as u64) as usize;
                let at = random.below(40);
                match random.below(3) {
                    0 => {
                        timers.set(ids[place], None);
                        expected[place] = None;
                    }
                    1 => {
                        timers.set(ids[place], Some(Nanos(at)));
                        expected[place] = Some((at, step));
                    }
                    _ => {
                        timers.keep(ids[place], Some(Nanos(at)));
                        if expected[place].is_none_or(|(armed, _)| at < armed) {
                            expected[place] = Some((at, step));
                        }
                    }
                }
                let armed = expected.iter().zip(&ids);
                let first = armed
                    .filter_map(|(entry, id)| entry.map(|entry| (entry, *id)))
                    .min_by_key(|(entry, _)| *entry)
                    .map(|((at, _), id)| (Nanos(at), id));
                assert_eq!(timers.first(), first, "seed {seed}, {count} timers, {step}");
            }
        }
    }

    #[test]
    fn timers_added_later_keep_the_earlier_ones_armed() {
        let mut timers = Timers::default();
        let first = timers.add();
        timers.set(first, Some(Nanos(7)));
        let others: Vec<TimerId> = (0..100).map(|_| timers.add()).collect();
        assert_eq!(timers.first(), Some((Nanos(7), first)));
        timers.set(others[99], Some(Nanos(3)));
        assert_eq!(timers.first(), Some((Nanos(3), others[99])));
        timers.set(others[99], None);
        assert_eq!(timers.first(), Some((Nanos(7), first)));
    }

    #[test]
    fn a_deadline_that_moves_back_changes_nothing_before_it_rings() {
        let mut timers = Timers::default();
        let id = timers.add();
        timers.keep(id, Some(Nanos(10)));
        timers.keep(id, Some(Nanos(50)));
        timers.keep(id, None);
        assert_eq!(timers.first(), Some((Nanos(10), id)));
        timers.set(id, Some(Nanos(50)));
        assert_eq!(timers.first(), Some((Nanos(50), id)));
    }
}
