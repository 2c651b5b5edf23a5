//! When a guest's processor is taken away: the turns of its core, as the simulator's cores have them,
//! and its migration.

use uc_experiment::Hypervisor;
use uc_net::random::Stream;

/// The stops of one guest, in order of time, without end where its core is shared.
///
/// Each guest of a core counts the same turns for itself: their lengths come from the same numbers.
#[derive(Debug, Clone)]
pub struct Turns {
    vms: u64,
    slice_ns: u64,
    jitter_ns: u64,
    /// Which of the core's turns is this guest's.
    position: u64,
    random: Stream,
    turn: u64,
    turn_end_ns: u64,
    migration: Option<(u64, u64)>,
    /// A stop that was looked at and comes after the one that was told.
    next: Option<(u64, u64)>,
}

impl Turns {
    /// Of the guest with that number in its group. As nothing ties the turns of a core to the flows,
    /// the run finds it somewhere in them, by the seed.
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

    /// The next stop by turns alone, from its beginning to its end.
    fn stop_by_turns(&mut self) -> Option<(u64, u64)> {
        if self.vms == 1 {
            return None;
        }
        let mut from_ns = 0;
        if self.turn % self.vms == self.position {
            from_ns = self.turn_end_ns;
            self.pass();
        }
        // The run begins with others' turns, or this guest's own is over: at most all of the others'.
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
        // What lies before it is told; what it touches is one stop with it.
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
    fn the_guests_of_a_core_run_one_after_the_other_and_together_all_the_time() {
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
    fn a_guest_beside_machines_that_compute_stands_still_for_their_turns() {
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
    fn a_core_that_nobody_shares_stops_for_a_migration_alone() {
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
    fn a_migration_swallows_the_stops_that_it_touches() {
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
