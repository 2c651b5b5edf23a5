//! Kills of a process at random moments: how many, when, and the command that repeats one that a connection did
//! not survive.

use std::thread;
use std::time::Duration;

use uc_net::random::Stream;

/// Kills that a test makes one after the other; `UC_KILLS` is their number. The moment of a kill depends only on its
/// seed. The first kill has the seed `UC_SEED` (1 unless given), each further kill the next number.
pub struct Kills {
    first: u64,
    end: u64,
    /// Seed and moment of the last kill; `None` before the first.
    last: Option<(u64, Duration)>,
}

/// A kill that is to come.
pub struct Kill {
    /// Number of the kill, from 0.
    pub number: u64,
    seed: u64,
}

impl Kills {
    /// Plans the kills of the running test: `UC_KILLS`, or `usual` if that is not set.
    pub fn of(usual: u64) -> Self {
        let (first, kills) = (seed(), number("UC_KILLS", usual));
        println!("UC_SEED={first} UC_KILLS={kills}");
        Self {
            first,
            end: first + kills,
            last: None,
        }
    }

    /// Returns the next kill; `None` after the last one.
    pub fn another(&mut self) -> Option<Kill> {
        let seed = self.last.map_or(self.first, |(seed, _)| seed + 1);
        self.last = (seed < self.end).then_some((seed, Duration::ZERO));
        self.last.map(|_| Kill {
            number: seed - self.first,
            seed,
        })
    }

    /// Sleeps until the moment of a kill, a random time below `span` from now.
    pub fn sleep(&mut self, kill: &Kill, span: Duration) {
        let span_us = span.as_micros() as u64;
        let moment = Duration::from_micros(Stream::new(kill.seed, "kills").below(span_us));
        self.last = Some((kill.seed, moment));
        thread::sleep(moment);
    }
}

/// Returns the seed of a test's moments: `UC_SEED`, or 1.
pub fn seed() -> u64 {
    number("UC_SEED", 1)
}

fn number(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is '{text}': give a number")),
        Err(_) => usual,
    }
}

impl Drop for Kills {
    fn drop(&mut self) {
        let Some((seed, moment)) = self.last.filter(|_| thread::panicking()) else {
            return;
        };
        let number = seed - self.first;
        let name = thread::current();
        eprintln!(
            "kill {number}, after {moment:?}; UC_SEED={seed} UC_KILLS=1 cargo test -p uc-cli {}",
            name.name().unwrap_or("live_")
        );
    }
}
