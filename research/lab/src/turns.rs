//! The stalls of a guest: time slices of its core, as in the simulator, and its migration.

use uc_experiment::Hypervisor;
use uc_net::random::Stream;

/// An iterator over the stalls of one guest: start and end of each, in nanoseconds, in order of time. It never ends
/// where the guest's core is shared.
///
/// Each guest of a core computes the same slices independently: their lengths come from the same
/// random numbers.
#[derive(Debug, Clone)]
pub struct Turns {
    vms: u64,
    slice_ns: u64,
    jitter_ns: u64,
    /// Position of this guest among the slices of its core.
    position: u64,
    random: Stream,
    turn: u64,
    turn_end_ns: u64,
    migration: Option<(u64, u64)>,
    /// Next stall by slices, if it is computed already: it comes after the stall that was returned last.
    next: Option<(u64, u64)>,
}

impl Turns {
    /// Creates the stalls of guest number `number` in its group. The run begins at a random time within the slices of
    /// the core, drawn from the seed, since slices are independent of flows.
    pub fn new(hypervisor: &Hypervisor, group: &str, number: u32, seed: u64) -> Self {
        let together = hypervisor.guests.max(1);
        let (core, position) = (number / together, number % together);
        let (vms, slice_ns) = (u64::from(hypervisor.vms.max(1)), hypervisor.slice.0.max(1));
        let mut random = Stream::new(seed, &format!("hypervisor/{group}/{core}"));
        let into_ns = random.below(slice_ns.saturating_mul(vms));
        let migration = hypervisor.migration;
        Self {
            vms,
            slice_ns,
            jitter_ns: hypervisor.jitter.0.min(slice_ns / 2),
            position: u64::from(position),
            random,
            turn: into_ns / slice_ns,
            turn_end_ns: slice_ns - into_ns % slice_ns,
            migration: migration.map(|it| (it.at.0, it.at.0.saturating_add(it.downtime.0))),
            next: None,
        }
    }

    /// Returns start and end of the next stall by slices alone; `None` if the guest's core is not shared.
    fn stop_by_turns(&mut self) -> Option<(u64, u64)> {
        if self.vms == 1 {
            return None;
        }
        let mut from_ns = 0;
        if self.turn % self.vms == self.position {
            from_ns = self.turn_end_ns;
            self.pass();
        }
        // The run begins in others' slices, or this guest's own is over: at most all of the
        // others'.
        let mut to_ns = self.turn_end_ns;
        self.pass();
        while self.turn % self.vms != self.position {
            to_ns = self.turn_end_ns;
            self.pass();
        }
        Some((from_ns, to_ns))
    }

    fn pass(&mut self) {
        self.turn += 1;
        let early_ns = self.random.below(self.jitter_ns + 1);
        self.turn_end_ns = self.turn_end_ns.saturating_add(self.slice_ns - early_ns);
    }
}

impl Iterator for Turns {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let mut stop = self.next.take().or_else(|| self.stop_by_turns());
        let Some((from_ns, to_ns)) = self.migration else {
            return stop;
        };
        // A stall before the migration is returned first; a stall that touches it is merged with
        // it.
        if stop.is_some_and(|(_, end_ns)| end_ns < from_ns) {
            return stop;
        }
        self.migration = None;
        let mut joined = (from_ns, to_ns);
        while let Some((start_ns, end_ns)) = stop.filter(|&(start_ns, _)| start_ns <= joined.1) {
            joined = (joined.0.min(start_ns), joined.1.max(end_ns));
            stop = self.stop_by_turns();
        }
        self.next = stop;
        Some(joined)
    }
}

#[cfg(test)]
mod tests {
    use uc_experiment::{Migration, Nanos};

    use super::*;

    const MS: u64 = 1_000_000;

    fn hypervisor(vms: u32, guests: u32) -> Hypervisor {
        Hypervisor {
            vms,
            guests,
            ..Hypervisor::default()
        }
    }

    #[test]
    fn exactly_one_guest_of_a_core_runs_at_any_time() {
        for seed in 0..20 {
            let jitter = Hypervisor {
                jitter: Nanos(5 * MS),
                ..hypervisor(3, 3)
            };
            let stops = |number| {
                let turns = Turns::new(&jitter, "a", number, seed);
                turns.take(50).collect::<Vec<_>>()
            };
            let all = [stops(0), stops(1), stops(2)];
            let end_ns = all.iter().map(|stops| stops[49].1).min().unwrap();
            for at_ns in (0..end_ns).step_by(MS as usize) {
                let stands = |stops: &&Vec<(u64, u64)>| {
                    stops.iter().any(|&(from, to)| (from..to).contains(&at_ns))
                };
                let standing = all.iter().filter(stands).count();
                assert_eq!(standing, 2, "seed {seed}, at {at_ns} ns: {all:?}");
            }
        }
    }

    #[test]
    fn a_guest_is_stalled_during_the_slices_of_other_vms() {
        for seed in 0..20 {
            let mut turns = Turns::new(&hypervisor(3, 1), "a", 7, seed);
            let first = turns.next().unwrap();
            assert!(first.1 - first.0 <= 60 * MS, "seed {seed}: {first:?}");
            let mut last_ns = first.1;
            for (from_ns, to_ns) in turns.take(20) {
                let lengths = (from_ns - last_ns, to_ns - from_ns);
                assert_eq!(lengths, (30 * MS, 60 * MS), "seed {seed}");
                last_ns = to_ns;
            }
        }
    }

    #[test]
    fn an_unshared_core_stalls_for_a_migration_only() {
        let mut alone = hypervisor(1, 1);
        assert_eq!(Turns::new(&alone, "a", 0, 1).next(), None);
        alone.migration = Some(Migration {
            at: Nanos(MS),
            downtime: Nanos(2 * MS),
        });
        let stops: Vec<_> = Turns::new(&alone, "a", 0, 1).collect();
        assert_eq!(stops, [(MS, 3 * MS)]);
    }

    #[test]
    fn a_migration_merges_with_the_stalls_that_it_touches() {
        let mut shared = hypervisor(2, 1);
        shared.migration = Some(Migration {
            at: Nanos(100 * MS),
            downtime: Nanos(100 * MS),
        });
        for seed in 0..50 {
            let stops: Vec<_> = Turns::new(&shared, "a", 0, seed).take(20).collect();
            let ordered = stops.windows(2).all(|pair| pair[0].1 < pair[1].0);
            let longest = stops.iter().max_by_key(|(from, to)| to - from).unwrap();
            let covers = longest.0 <= 100 * MS && longest.1 >= 200 * MS;
            assert!(ordered && covers, "seed {seed}: {stops:?}");
        }
    }
}
