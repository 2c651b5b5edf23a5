//! CPU cores that virtual machines share in time slices (Xen's credit scheduler among VMs that are
//! always busy): which VM runs when. [`machine`] is the VM itself; `hosts` handles its connections.

pub mod machine;
pub mod vm_end;

use uc_net::Nanos;
use uc_net::random::Stream;

pub use machine::{Machine, MachinePlan};
pub use vm_end::{Counts, VmEnd};

/// A core, and the guests among the VMs that share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorePlan {
    /// Number of VMs that share the core, guests and others.
    pub turns: u32,
    /// Length of the time slice of a VM.
    pub slice: Nanos,
    /// Maximum by which a slice may end early, at random; at most half a slice counts.
    pub jitter: Nanos,
    /// Seed of the random stream for the jitter.
    pub seed: u64,
    /// Phase of the slices at the start of the run, from the start of the first VM's slice.
    pub offset: Nanos,
    /// Time for which a VM that is not running runs at once when a packet arrives for it; `None`: the VM waits for its
    /// slice.
    pub boost: Option<Nanos>,
    /// The guests, which have the first slices; at most `turns`.
    pub guests: Vec<MachinePlan>,
}

/// A change of the running VM; guests by number among all guests' VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Guest whose VM stops running; `None`: the VM is not a guest's.
    pub sleeps: Option<usize>,
    /// Guest whose VM starts running; `None`: the VM is not a guest's.
    pub wakes: Option<usize>,
}

/// The state of a CPU core that several VMs share.
#[derive(Clone, Debug)]
pub struct Core {
    turns: u32,
    slice: Nanos,
    jitter: Nanos,
    random: Stream,
    boost: Option<Nanos>,
    /// Number of the core's first guest among the run's guests.
    first: usize,
    /// Number of guests on the core; they have its first slices.
    guests: u32,
    turn: u32,
    turn_end: Nanos,
    /// VM that runs because of a packet, by index on the core, and until when; `None`: the VM of the slice runs.
    boosted: Option<(u32, Nanos)>,
    switches: u64,
    boosts: u64,
}

impl Core {
    /// Creates the core at time zero. Its first guest is VM number `first`.
    pub fn new(plan: &CorePlan, first: usize) -> Core {
        let slice_ns = plan.slice.0.max(1);
        let turns = plan.turns.max(1);
        let into_ns = plan.offset.0 % (slice_ns.saturating_mul(u64::from(turns)));
        Core {
            turns,
            slice: Nanos(slice_ns),
            jitter: Nanos(plan.jitter.0.min(slice_ns / 2)),
            random: Stream::new(plan.seed, &format!("hypervisor/turns/{first}")),
            boost: plan.boost,
            first,
            guests: plan.guests.len() as u32,
            turn: (into_ns / slice_ns) as u32,
            turn_end: Nanos(slice_ns - into_ns % slice_ns),
            boosted: None,
            switches: 0,
            boosts: 0,
        }
    }

    /// Returns the index on the core of the VM that runs, because of a packet or by its slice.
    fn occupant(&self) -> u32 {
        self.boosted.map_or(self.turn, |(turn, _)| turn)
    }

    fn guest(&self, turn: u32) -> Option<usize> {
        (turn < self.guests).then(|| self.first + turn as usize)
    }

    /// Returns the guest that runs; `None` while another VM does.
    pub fn running(&self) -> Option<usize> {
        self.guest(self.occupant())
    }

    /// Returns when the running VM next changes if no packet arrives; `None` on a core that is not shared.
    pub fn next_change(&self) -> Option<Nanos> {
        let turn_end = (self.turns > 1).then_some(self.turn_end);
        match (turn_end, self.boosted) {
            (Some(turn_end), Some((_, until))) => Some(turn_end.min(until)),
            (turn_end, _) => turn_end,
        }
    }

    /// Changes the running VM at the time of [`Core::next_change`].
    pub fn change(&mut self, now: Nanos) -> Switch {
        let before = self.occupant();
        self.boosted = self.boosted.filter(|&(_, until)| until > now);
        while self.turns > 1 && self.turn_end <= now {
            self.turn = (self.turn + 1) % self.turns;
            let early = self.random.below(self.jitter.0 + 1);
            self.turn_end += Nanos(self.slice.0 - early);
        }
        self.switch(before)
    }

    /// Handles a packet for a guest of this core that isn't running: the guest runs at once, if the core's plan has a
    /// boost.
    pub fn packet(&mut self, guest: usize, now: Nanos) -> Switch {
        let Some(boost) = self.boost else {
            return Switch::default();
        };
        let before = self.occupant();
        self.boosted = Some(((guest - self.first) as u32, now + boost));
        self.boosts += 1;
        self.switch(before)
    }

    fn switch(&mut self, before: u32) -> Switch {
        let after = self.occupant();
        if before == after {
            return Switch::default();
        }
        self.switches += 1;
        Switch {
            sleeps: self.guest(before),
            wakes: self.guest(after),
        }
    }

    /// Returns the number of switches from one VM to another.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Returns how often a packet gave a guest the core.
    pub fn boosts(&self) -> u64 {
        self.boosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Nanos {
        Nanos::from_millis(milliseconds)
    }

    fn core(turns: u32, guests: usize, offset: Nanos, boost: Option<Nanos>) -> Core {
        let guest = MachinePlan {
            tick: ms(1),
            tick_offset: Nanos::ZERO,
            backlog_packets: 10,
            migration: None,
        };
        let plan = CorePlan {
            turns,
            slice: ms(30),
            jitter: Nanos::ZERO,
            seed: 1,
            offset,
            boost,
            guests: vec![guest; guests],
        };
        Core::new(&plan, 7)
    }

    /// Returns the changes up to `until`: time in ms, and the guest that runs from then on.
    fn story(core: &mut Core, until: Nanos) -> Vec<(u64, Option<usize>)> {
        let mut story = Vec::new();
        while let Some(at) = core.next_change().filter(|&at| at <= until) {
            let before = core.running();
            let switch = core.change(at);
            if before != core.running() {
                assert_eq!((switch.sleeps, switch.wakes), (before, core.running()));
            }
            story.push((at.0 / 1_000_000, core.running()));
        }
        story
    }

    #[test]
    fn one_guest_among_three_runs_in_one_slice_of_three() {
        let mut core = core(3, 1, ms(10), None);
        assert_eq!(core.running(), Some(7));
        let expected = [(20, None), (50, None), (80, Some(7)), (110, None)];
        assert_eq!(story(&mut core, ms(120)), expected);
        assert_eq!(core.switches(), 4);
    }

    #[test]
    fn guests_of_one_core_run_in_turn() {
        let mut core = core(2, 2, ms(30), None);
        assert_eq!(core.running(), Some(8));
        assert_eq!(
            story(&mut core, ms(90)),
            [(30, Some(7)), (60, Some(8)), (90, Some(7))]
        );
    }

    #[test]
    fn slices_may_end_early_and_never_late() {
        let plan = CorePlan {
            turns: 2,
            slice: ms(30),
            jitter: ms(2),
            seed: 3,
            offset: Nanos::ZERO,
            boost: None,
            guests: Vec::new(),
        };
        let mut core = Core::new(&plan, 0);
        let mut lengths_ns = Vec::new();
        let mut last = core.next_change().expect("a shared core");
        for _ in 0..1_000 {
            core.change(last);
            let next = core.next_change().expect("a shared core");
            lengths_ns.push(next.since(last).0);
            last = next;
        }
        let (least, most) = (lengths_ns.iter().min(), lengths_ns.iter().max());
        let [least, most] = [least, most].map(|length| *length.expect("some"));
        assert!((28_000_000..28_100_000).contains(&least), "{least} ns");
        assert!((29_900_000..=30_000_000).contains(&most), "{most} ns");
    }

    #[test]
    fn an_unshared_core_never_changes() {
        let core = core(1, 1, ms(0), None);
        assert_eq!((core.running(), core.next_change()), (Some(7), None));
    }

    #[test]
    fn a_packet_boosts_its_guest_and_keeps_the_order_of_slices() {
        let mut core = core(3, 2, ms(30), Some(ms(1)));
        assert_eq!(core.running(), Some(8));
        let switch = core.packet(7, ms(10));
        let expected = Switch {
            sleeps: Some(8),
            wakes: Some(7),
        };
        assert_eq!(switch, expected);
        assert_eq!(
            story(&mut core, ms(70)),
            [(11, Some(8)), (30, None), (60, Some(7))]
        );
        assert_eq!((core.switches(), core.boosts()), (4, 1));
    }

    #[test]
    fn a_boost_that_lasts_into_the_guests_own_slice_costs_no_switch() {
        let mut core = core(2, 1, ms(30), Some(ms(10)));
        core.packet(7, ms(25));
        assert_eq!(story(&mut core, ms(40)), [(30, Some(7)), (35, Some(7))]);
        assert_eq!(core.switches(), 1);
    }
}
