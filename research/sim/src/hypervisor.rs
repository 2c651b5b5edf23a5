//! Processor cores that virtual machines share, one slice after the other (Xen's credit scheduler
//! among machines that are always busy): who runs when. What a machine does with its time is in
//! [`machine`]; what becomes of its connections meanwhile, in `hosts`.

pub mod machine;
pub mod resident;

use uc_net::Nanos;
use uc_net::random::Stream;

pub use machine::{Machine, MachinePlan};
pub use resident::{Counts, Resident};

/// A core, and the guests among the machines that share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorePlan {
    /// Machines that take turns, guests and others.
    pub turns: u32,
    /// How long a turn is.
    pub slice: Nanos,
    /// How much earlier one may end, at random.
    pub jitter: Nanos,
    /// Where that is drawn from.
    pub seed: u64,
    /// How far into the first machine's turn the run begins, counted in the time of a whole round.
    pub offset: Nanos,
    /// A packet for a machine that isn't running has it run at once, for so long.
    pub boost: Option<Nanos>,
    /// The guests, which have the first turns; not more than `turns`.
    pub guests: Vec<MachinePlan>,
}

/// Who goes to sleep and who wakes, by number among all machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// This guest stops.
    pub sleeps: Option<usize>,
    /// This one goes on.
    pub wakes: Option<usize>,
}

/// A core at some moment.
#[derive(Clone, Debug)]
pub struct Core {
    turns: u32,
    slice: Nanos,
    jitter: Nanos,
    random: Stream,
    boost: Option<Nanos>,
    /// The number of the first guest among all machines, and how many there are.
    first: usize,
    guests: u32,
    turn: u32,
    turn_end: Nanos,
    /// Whose turn it is by a packet, and until when.
    boosted: Option<(u32, Nanos)>,
    switches: u64,
    boosts: u64,
}

impl Core {
    /// The core at time zero. Its first guest is number `first` among all machines.
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

    /// Whose turn it is, by a packet or by time.
    fn occupant(&self) -> u32 {
        self.boosted.map_or(self.turn, |(turn, _)| turn)
    }

    fn guest(&self, turn: u32) -> Option<usize> {
        (turn < self.guests).then(|| self.first + turn as usize)
    }

    /// The guest that runs; none while another machine does.
    pub fn running(&self) -> Option<usize> {
        self.guest(self.occupant())
    }

    /// When something changes next without a packet; never on a core that nobody shares.
    pub fn next_change(&self) -> Option<Nanos> {
        let turn_end = (self.turns > 1).then_some(self.turn_end);
        match (turn_end, self.boosted) {
            (Some(turn_end), Some((_, until))) => Some(turn_end.min(until)),
            (turn_end, _) => turn_end,
        }
    }

    /// The moment of [`Core::next_change`] has come.
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

    /// A packet has come for a guest of this core that isn't running.
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

    /// How often the core went from one machine to another.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// How often a packet gave a guest the core.
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

    /// The changes up to `until`: when, and who runs from then on.
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
    fn one_guest_among_three_runs_for_a_slice_of_every_three() {
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
    fn turns_may_end_early_and_none_ends_late() {
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
    fn a_core_that_nobody_shares_never_changes() {
        let core = core(1, 1, ms(0), None);
        assert_eq!((core.running(), core.next_change()), (Some(7), None));
    }

    #[test]
    fn a_packet_takes_the_core_for_a_while_and_the_order_of_turns_stays() {
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
    fn a_boost_that_lasts_into_the_guests_own_turn_costs_no_switch_there() {
        let mut core = core(2, 1, ms(30), Some(ms(10)));
        core.packet(7, ms(25));
        assert_eq!(story(&mut core, ms(40)), [(30, Some(7)), (35, Some(7))]);
        assert_eq!(core.switches(), 1);
    }
}
