//! The order of events of a network in parts: the one that a single part would have given them.
//!
//! A packet that comes to a link, and a timer that is armed, get a number. Among packets that arrive at
//! the same time, and among timers that fire at the same time, the lower number comes first. The number
//! has the time in its upper bits, and below it the place among all that got a number at that time.
//!
//! Each part gives numbers to its own. They are the final ones unless another part gave numbers at the
//! same nanosecond. Then [`settle`] merges them in the order of their causes. The *rank* of a packet is its
//! order among those that arrive at one time (`depot.rs`).

mod settle;

use std::cmp::Ordering;

use uc_words::Nanos;

pub use settle::settle;

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

    /// Returns what decides the order of most causes: the phase, and the times in the rank. Final numbers
    /// have the same.
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
    /// The times from `start` on at which numbers were given.
    words: Vec<Word>,
}

/// 64 nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// A bit for each nanosecond: whether a number was given then.
    times: u64,
    /// If there is a bit, the place of the first number in [`Log::given`].
    first: u32,
}

impl Log {
    /// Forgets all numbers. The next ones are given from `start` to before `end`.
    pub fn begin(&mut self, start: Nanos, end: Nanos) {
        let words = (end.since(start).0 / 64 + 1) as usize;
        self.start = start;
        self.given.clear();
        self.words.clear();
        self.words.resize(words, Word::default());
    }

    /// Adds a number, which packet or timer `item` has got.
    #[inline(always)]
    pub fn note(&mut self, number: u64, cause: Cause, item: u32) {
        let place = (number >> PLACE_BITS) - self.start.0;
        let word = &mut self.words[place as usize / 64];
        if word.times == 0 {
            word.first = self.given.len() as u32;
        }
        word.times |= 1 << (place % 64);
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

    /// Returns the numbers from the time of bit `bit` of word `word` on, which is set, and at most some of
    /// earlier times of the word before them.
    fn around(&self, word: usize, bit: u32) -> &[Given] {
        // Each earlier time of the word has one number at least.
        let Word { times, first } = self.words[word];
        let before = (times & ((1 << bit) - 1)).count_ones();
        &self.given[(first + before) as usize..]
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
    /// Raises `next` to the first number of the time `now` if it is lower, and notes that `item` gets it.
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
