//! Merges the numbers of several parts in the order that a single part would have given them.

use std::cmp::Ordering;

use super::{Cause, Given, Log, PLACE_BITS, Rename, Renames};

/// Room for what most windows need.
const LEFT_USUAL: usize = 64;

/// Merges the numbers that several parts gave in one window, and writes for each part those that
/// change into `renames`. `logs` has each part's log of packets and its log of timers.
pub fn settle(logs: &[(&Log, &Log)], renames: &mut [Renames]) {
    renames.iter_mut().for_each(Renames::clear);
    let mut packets = shared(logs.iter().map(|logs| logs.0));
    let mut timers = shared(logs.iter().map(|logs| logs.1));
    let words = packets.len().max(timers.len());
    packets.resize(words, 0);
    timers.resize(words, 0);
    let mut all: Vec<Left> = Vec::with_capacity(LEFT_USUAL);
    for (word, (packet, timer)) in packets.into_iter().zip(timers).enumerate() {
        let mut both = packet | timer;
        while both != 0 {
            let bit = both.trailing_zeros();
            both &= both - 1;
            // Timers first: one may be armed and fire at one time, and its number be the cause of a packet's.
            if timer >> bit & 1 != 0 {
                find(logs, (word, bit), true, &mut all);
            }
            if packet >> bit & 1 != 0 {
                find(logs, (word, bit), false, &mut all);
            }
        }
    }
    // In a loop of their own, so that cache lines of the other cores arrive in parallel.
    all.iter_mut().for_each(Left::narrow);
    let are_together = |a: &Left, b: &Left| (a.are_timers, a.time) == (b.are_timers, b.time);
    for left in all.chunk_by_mut(are_together) {
        merge(left, renames);
    }
}

/// Returns the times at which more than one part gave numbers, as bits; nothing if there are none.
fn shared<'a>(logs: impl Iterator<Item = &'a Log>) -> Vec<u64> {
    let mut used = logs.filter(|log| !log.given.is_empty());
    let (Some(first), Some(second)) = (used.next(), used.next()) else {
        return Vec::new();
    };
    let pairs = first.words.iter().zip(&second.words);
    let pairs = pairs.map(|(first, second)| (first.times, second.times));
    let mut several: Vec<u64> = pairs.clone().map(|(a, b)| a & b).collect();
    let Some(third) = used.next() else {
        return several;
    };
    let mut any: Vec<u64> = pairs.map(|(a, b)| a | b).collect();
    for log in [third].into_iter().chain(used) {
        for ((several, any), word) in several.iter_mut().zip(&mut any).zip(&log.words) {
            *several |= *any & word.times;
            *any |= word.times;
        }
    }
    several
}

/// Finds what the parts gave at the time of a bit.
fn find<'a>(
    logs: &[(&'a Log, &'a Log)],
    (word, bit): (usize, u32),
    are_timers: bool,
    all: &mut Vec<Left<'a>>,
) {
    for (part, &(packets, timers)) in logs.iter().enumerate() {
        let log = if are_timers { timers } else { packets };
        if log.words[word].times >> bit & 1 != 0 {
            all.push(Left {
                part,
                are_timers,
                time: log.start.0 + word as u64 * 64 + u64::from(bit),
                given: log.around(word, bit),
            });
        }
    }
}

/// The numbers that a part gave at one time to packets or to timers, and that are not merged yet; at least
/// one.
struct Left<'a> {
    part: usize,
    are_timers: bool,
    time: u64,
    given: &'a [Given],
}

impl Left<'_> {
    /// Leaves only the numbers of the time.
    fn narrow(&mut self) {
        let is_now = |given: &Given| given.number >> PLACE_BITS == self.time;
        while !is_now(&self.given[0]) {
            self.given = &self.given[1..];
        }
        let count = self.given.iter().take_while(|given| is_now(given)).count();
        self.given = &self.given[..count];
    }

    /// Gives the next number its final value.
    #[inline]
    fn rename_next(&mut self, new: u64, renames: &mut [Renames]) {
        let Given { number, item, .. } = self.given[0];
        self.given = &self.given[1..];
        if number != new {
            let renames = &mut renames[self.part];
            let list = if self.are_timers {
                &mut renames.timers
            } else {
                &mut renames.packets
            };
            list.push(Rename {
                item,
                old: number,
                new,
            });
        }
    }
}

/// Merges what several parts gave at one time, in the order of the causes.
fn merge(mut left: &mut [Left<'_>], renames: &mut [Renames]) {
    let firsts = left.iter().map(|left| left.given[0].number);
    let Some(mut next) = firsts.min() else { return };
    while left.len() > 1 {
        let first = first(left, renames);
        left[first].rename_next(next, renames);
        next += 1;
        if left[first].given.is_empty() {
            left[first..].rotate_left(1);
            let count = left.len() - 1;
            left = &mut left[..count];
        }
    }
    if let [last] = left {
        while !last.given.is_empty() {
            last.rename_next(next, renames);
            next += 1;
        }
    }
}

/// Returns the place in `left` of the part whose next number has the first cause.
fn first(left: &[Left<'_>], renames: &[Renames]) -> usize {
    let mut first = 0;
    for place in 1..left.len() {
        let [least, own] =
            [first, place].map(|place| (left[place].given[0].cause(), left[place].part));
        // The times are final. The numbers may not be, and matter only where the times are equal.
        let order = own.0.when().cmp(&least.0.when()).then_with(|| {
            let final_cause = |(cause, part): (Cause, usize)| renames[part].translate(cause);
            final_cause(own).cmp(&final_cause(least))
        });
        if order == Ordering::Less {
            first = place;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use uc_words::Nanos;

    use super::*;
    use crate::order::{INJECTED, Phase};

    fn number(time: u64, place: u64) -> u64 {
        time << PLACE_BITS | place
    }

    fn arrival(rank: u64) -> Cause {
        Cause::arrival((Nanos::ZERO, rank), Phase::Passage)
    }

    fn log(given: &[(u64, Cause)]) -> Log {
        let mut log = Log::default();
        log.begin(Nanos(100), Nanos(400));
        for (item, &(number, cause)) in (0..).zip(given) {
            log.note(number, cause, item);
        }
        log
    }

    fn rename(item: u32, old: u64, new: u64) -> Rename {
        Rename { item, old, new }
    }

    #[test]
    fn numbers_of_one_time_have_the_order_of_their_causes() {
        let timer = Cause::timer(Nanos(130), 5);
        let first = log(&[
            (number(110, 0), arrival(3)),
            (number(130, 0), arrival(4)),
            (number(130, 1), arrival(9)),
            (number(130, 2), timer),
        ]);
        let second = log(&[
            (number(120, 0), arrival(1)),
            (number(130, 0), arrival(7)),
            (number(130, 1), timer.of_deed(1)),
            (number(399, 0), arrival(2)),
        ]);
        let none = log(&[]);
        let mut renames = vec![Renames::default(); 2];
        settle(&[(&first, &none), (&second, &none)], &mut renames);
        let expected = [
            rename(2, number(130, 1), number(130, 2)),
            rename(3, number(130, 2), number(130, 3)),
        ];
        assert_eq!(renames[0].packets, expected);
        let expected = [
            rename(1, number(130, 0), number(130, 1)),
            rename(2, number(130, 1), number(130, 4)),
        ];
        assert_eq!(renames[1].packets, expected);
    }

    #[test]
    fn three_parts_take_turns_at_one_time_until_one_is_left() {
        let given = |ranks: &[u64]| {
            let given = (0..).zip(ranks);
            log(&given
                .map(|(place, &rank)| (number(250, place), arrival(rank)))
                .collect::<Vec<_>>())
        };
        let (first, second, third) = (given(&[2, 9]), given(&[1]), given(&[3, 4, 10]));
        let (none, mut renames) = (log(&[]), vec![Renames::default(); 3]);
        let logs = [(&first, &none), (&second, &none), (&third, &none)];
        settle(&logs, &mut renames);
        let final_places = |part: usize, count| {
            let places = (0..count).map(|place| renames[part].packet(number(250, place)));
            places
                .map(|number| number - (250 << PLACE_BITS))
                .collect::<Vec<_>>()
        };
        assert_eq!(final_places(0, 2), [1, 4]);
        assert_eq!(final_places(1, 1), [0]);
        assert_eq!(final_places(2, 3), [2, 3, 5]);
    }

    #[test]
    fn a_cause_within_the_window_counts_with_its_final_number() {
        // At 200 the second part's packet comes first, so at 300 it does, too.
        let first = log(&[
            (number(200, 0), arrival(8)),
            (number(300, 0), arrival(INJECTED | number(200, 0))),
        ]);
        let second = log(&[
            (number(200, 0), arrival(6)),
            (number(300, 0), arrival(INJECTED | number(200, 0))),
        ]);
        let none = log(&[]);
        let mut renames = vec![Renames::default(); 2];
        settle(&[(&first, &none), (&second, &none)], &mut renames);
        let expected = [
            rename(0, number(200, 0), number(200, 1)),
            rename(1, number(300, 0), number(300, 1)),
        ];
        assert_eq!(renames[0].packets, expected);
        assert_eq!(renames[1].packets, []);
    }

    #[test]
    fn the_numbers_of_timers_are_final_before_those_of_the_packets_that_they_cause() {
        let timers = |rank| log(&[(number(200, 0), arrival(rank))]);
        let packets = log(&[(number(200, 0), Cause::timer(Nanos(200), number(200, 0)))]);
        let (late, early) = (timers(8), timers(6));
        let mut renames = vec![Renames::default(); 2];
        settle(&[(&packets, &late), (&packets, &early)], &mut renames);
        let expected = [rename(0, number(200, 0), number(200, 1))];
        assert_eq!(renames[0].timers, expected);
        assert_eq!(renames[0].packets, expected);
        assert_eq!(renames[1].packets, []);
    }
}
