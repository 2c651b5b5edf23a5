//! The order of events of a network in parts: the one that a single part would have given them.
//!
//! A packet that comes to a link, and a timer that is armed, get a number. Among packets that arrive at
//! the same time, and among timers that fire at the same time, the lower number comes first. The number
//! has the time in its upper bits, and below it the place among all that got a number at that time.
//!
//! A part knows the places among its own. They are the final ones unless another part gave numbers at
//! the same nanosecond, too. Then [`settle`] merges both by their causes, whose order is known.

use std::cmp::Ordering;

use uc_words::Nanos;

/// Bits of the place in a number.
pub const PLACE_BITS: u32 = 20;

/// Maximum time whose numbers leave the highest bit free.
pub const TIME_MAX: Nanos = Nanos((1 << (63 - PLACE_BITS)) - 1);

/// The number's bit that marks packets which came from a host to their last link.
pub(crate) const INJECTED: u64 = 1 << 63;

/// No rank of an arrival is above this one.
pub const RANK_MAX: (u64, u64) = (u64::MAX, u64::MAX);

/// What happens at one time, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// A packet comes from one link to the next.
    #[default]
    Passage,
    /// Hosts answer packets that have arrived.
    Answer,
    /// Timers fire.
    Timer,
}

/// The event that gave a number. Causes of the same time have the order of the events: by phase, by rank,
/// by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// Rank of the packet that arrived, or time and number of the timer.
    rank: (u64, u64),
    /// Kind of the event, in the upper bits, and number of the application's operation in it.
    step: u32,
}

/// Bits of the number of an operation.
const DEED_BITS: u32 = 30;

impl Cause {
    /// Creates the cause of what happens when a packet of this rank arrives.
    #[inline]
    pub(crate) fn arrival(rank: (Nanos, u64), phase: Phase) -> Cause {
        Cause {
            rank: (rank.0.0, rank.1),
            step: (phase as u32) << DEED_BITS,
        }
    }

    /// Creates the cause of what happens when a timer with this time and number fires.
    pub fn timer(at: Nanos, number: u64) -> Cause {
        Cause {
            rank: (at.0, number),
            step: (Phase::Timer as u32) << DEED_BITS,
        }
    }

    /// Returns the cause of what an application does in the same event, as its operation `deed`, from 1.
    pub fn of_deed(self, deed: u32) -> Cause {
        Cause {
            step: self.step >> DEED_BITS << DEED_BITS | deed,
            ..self
        }
    }

    /// Returns the number of the application's operation; 0 for what TCP did itself.
    pub fn deed(self) -> u32 {
        self.step & ((1 << DEED_BITS) - 1)
    }

    fn phase(self) -> u32 {
        self.step >> DEED_BITS
    }

    /// Returns what decides the order of most causes, and changes with no number: the phase, and the times
    /// in the rank.
    fn when(self) -> (u32, u64, u64) {
        (self.phase(), self.rank.0, self.rank.1 >> PLACE_BITS)
    }

    /// Returns whether the event is a timer that fires.
    pub fn is_timer(self) -> bool {
        self.phase() == Phase::Timer as u32
    }

    /// Returns the rank of the packet that arrived, or time and number of the timer.
    pub fn rank(self) -> (u64, u64) {
        self.rank
    }
}

impl PartialOrd for Cause {
    fn partial_cmp(&self, other: &Cause) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cause {
    fn cmp(&self, other: &Cause) -> Ordering {
        let key = |cause: &Cause| (cause.phase(), cause.rank, cause.step);
        key(self).cmp(&key(other))
    }
}

/// A number, its cause, and the packet or timer that got it; the cause in pieces, so that two fit into a
/// line of the cache, which another core reads.
#[derive(Clone, Copy, Debug)]
struct Given {
    number: u64,
    rank: (u64, u64),
    step: u32,
    item: u32,
}

impl Given {
    fn cause(&self) -> Cause {
        let Given { rank, step, .. } = *self;
        Cause { rank, step }
    }
}

/// The numbers that a part has given since [`Log::begin`], ascending.
#[derive(Clone, Debug, Default)]
pub struct Log {
    start: Nanos,
    given: Vec<Given>,
    /// A bit for each nanosecond from `start` on: whether a number was given then.
    times: Vec<u64>,
    /// For each word of `times` that has a bit, the place in `given` of its first number.
    words: Vec<u32>,
}

impl Log {
    /// Forgets all numbers. The next ones are given from `start` to before `end`.
    pub fn begin(&mut self, start: Nanos, end: Nanos) {
        let words = (end.since(start).0 / 64 + 1) as usize;
        self.start = start;
        self.given.clear();
        self.times.clear();
        self.times.resize(words, 0);
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    /// Adds a number, which packet or timer `item` has got.
    #[inline(always)]
    pub fn note(&mut self, number: u64, cause: Cause, item: u32) {
        let place = (number >> PLACE_BITS) - self.start.0;
        let word = place as usize / 64;
        let times = &mut self.times[word];
        if *times == 0 {
            self.words[word] = self.given.len() as u32;
        }
        *times |= 1 << (place % 64);
        let Cause { rank, step } = cause;
        self.given.push(Given {
            number,
            rank,
            step,
            item,
        });
    }

    /// Returns the number given last.
    pub fn last(&self) -> Option<u64> {
        self.given.last().map(|given| given.number)
    }

    /// Returns the numbers of a time: that of the bit `bit` of word `word`, which is set.
    fn at(&self, word: usize, bit: u32) -> &[Given] {
        let time = self.start.0 + word as u64 * 64 + u64::from(bit);
        let is_at = |given: &Given| given.number >> PLACE_BITS == time;
        // Each earlier time of the word has one number at least.
        let before = (self.times[word] & ((1 << bit) - 1)).count_ones();
        let mut given = &self.given[(self.words[word] + before) as usize..];
        while !is_at(&given[0]) {
            given = &given[1..];
        }
        let count = given.iter().take_while(|given| is_at(given)).count();
        &given[..count]
    }
}

/// What gives numbers in a part: to packets that come to links, or to timers that are armed.
#[derive(Clone, Debug, Default)]
pub struct Numbering {
    /// Event that gives the next number.
    pub cause: Cause,
    /// The numbers of this window.
    pub log: Log,
    is_full: bool,
}

impl Numbering {
    /// Makes `next`, the number that `item` gets, one of the time `now` at least, and notes it.
    #[inline(always)]
    pub fn give(&mut self, next: &mut u64, now: Nanos, item: u32) {
        *next = (*next).max(now.0 << PLACE_BITS);
        self.is_full |= *next >> PLACE_BITS != now.0;
        self.log.note(*next, self.cause, item);
    }

    /// Returns whether more numbers were given at one time than there are.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

/// A number that another one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Packet or timer that got it.
    pub item: u32,
    /// Number as the part gave it.
    pub old: u64,
    /// Number as a single part would have given it; never lower.
    pub new: u64,
}

/// The numbers of one part that others replace, ascending: those of packets and those of timers.
#[derive(Clone, Debug, Default)]
pub struct Renames {
    /// Numbers of packets.
    pub packets: Vec<Rename>,
    /// Numbers of timers.
    pub timers: Vec<Rename>,
}

impl Renames {
    /// Removes all renames.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.timers.clear();
    }

    /// Returns the final number of a packet.
    pub fn packet(&self, number: u64) -> u64 {
        replaced(&self.packets, number)
    }

    /// Returns the final number of a timer.
    pub fn timer(&self, number: u64) -> u64 {
        replaced(&self.timers, number)
    }

    /// Returns a cause with its final numbers.
    pub fn translate(&self, mut cause: Cause) -> Cause {
        let (renames, bit) = if cause.is_timer() {
            (&self.timers, 0)
        } else {
            (&self.packets, cause.rank.1 & INJECTED)
        };
        cause.rank.1 = bit | replaced(renames, cause.rank.1 & !bit);
        cause
    }
}

/// Returns the number that replaces `number`, or `number` itself; `renames` are ascending.
#[inline]
pub(crate) fn replaced(renames: &[Rename], number: u64) -> u64 {
    if renames.is_empty() {
        return number;
    }
    let found = renames.binary_search_by_key(&number, |rename| rename.old);
    found.map_or(number, |place| renames[place].new)
}

/// Merges the numbers that several parts gave in one window, and writes for each part those that
/// change into `renames`. `logs` has each part's log of packets and its log of timers.
pub fn settle(logs: &[(&Log, &Log)], renames: &mut [Renames]) {
    renames.iter_mut().for_each(Renames::clear);
    let packets: Vec<&Log> = logs.iter().map(|logs| logs.0).collect();
    let timers: Vec<&Log> = logs.iter().map(|logs| logs.1).collect();
    let mut left = Vec::with_capacity(logs.len());
    let (shared_packets, shared_timers) = (shared(&packets), shared(&timers));
    for word in 0..shared_packets.len().max(shared_timers.len()) {
        let [packet, timer] =
            [&shared_packets, &shared_timers].map(|times| times.get(word).map_or(0, |bits| *bits));
        let mut both = packet | timer;
        while both != 0 {
            let bit = both.trailing_zeros();
            both &= both - 1;
            // A timer may be armed and fire at one time, so that its number is the cause of a packet's.
            if timer >> bit & 1 != 0 {
                find(&timers, word, bit, &mut left);
                merge(&mut left, renames, |renames| &mut renames.timers);
            }
            if packet >> bit & 1 != 0 {
                find(&packets, word, bit, &mut left);
                merge(&mut left, renames, |renames| &mut renames.packets);
            }
        }
    }
}

/// Returns the times at which more than one part gave numbers, as bits; nothing if there are none.
fn shared(logs: &[&Log]) -> Vec<u64> {
    let mut used = logs.iter().filter(|log| !log.given.is_empty());
    let (Some(first), Some(second)) = (used.next(), used.next()) else {
        return Vec::new();
    };
    let pairs = first.times.iter().zip(&second.times);
    let mut several: Vec<u64> = pairs.clone().map(|(a, b)| a & b).collect();
    let Some(third) = used.next() else {
        return several;
    };
    let mut any: Vec<u64> = pairs.map(|(a, b)| a | b).collect();
    for log in [third].into_iter().chain(used) {
        for ((several, any), times) in several.iter_mut().zip(&mut any).zip(&log.times) {
            *several |= *any & times;
            *any |= times;
        }
    }
    several
}

/// What the parts gave at one time and is not merged yet: the part, and the numbers in its log.
type Left<'a> = Vec<(usize, &'a [Given])>;

/// Finds what the parts gave at the time of a bit.
fn find<'a>(logs: &[&'a Log], word: usize, bit: u32, left: &mut Left<'a>) {
    left.clear();
    let having = logs.iter().enumerate();
    let having = having.filter(|(_, log)| log.times[word] >> bit & 1 != 0);
    left.extend(having.map(|(part, log)| (part, log.at(word, bit))));
}

/// Merges what several parts gave at one time, in the order of the causes.
fn merge(
    left: &mut Left<'_>,
    renames: &mut [Renames],
    list: impl Fn(&mut Renames) -> &mut Vec<Rename>,
) {
    let firsts = left.iter().map(|(_, given)| given[0].number);
    let Some(mut next) = firsts.min() else { return };
    while let Some(first) = first(left, renames) {
        let (part, given) = &mut left[first];
        let Given { number, item, .. } = given[0];
        *given = &given[1..];
        if number != next {
            list(&mut renames[*part]).push(Rename {
                item,
                old: number,
                new: next,
            });
        }
        if given.is_empty() {
            left.remove(first);
        }
        next += 1;
    }
}

/// Returns the place in `left` of the part whose next number has the first cause.
fn first(left: &Left<'_>, renames: &[Renames]) -> Option<usize> {
    let mut first = 0;
    let (part, given) = left.first()?;
    let mut least = (given[0].cause(), *part);
    for (place, (part, given)) in left.iter().enumerate().skip(1) {
        let own = (given[0].cause(), *part);
        // Few causes have numbers of the same time: only these may have got others.
        let order = own.0.when().cmp(&least.0.when()).then_with(|| {
            let final_cause = |(cause, part): (Cause, usize)| renames[part].translate(cause);
            final_cause(own).cmp(&final_cause(least))
        });
        if order == Ordering::Less {
            (first, least) = (place, own);
        }
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

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
