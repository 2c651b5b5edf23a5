//! What the adversary does in a game, and when.

use uc_core::consts;
use uc_net::random::Stream;

use crate::games::TICKS;
use crate::games::trick::{Greeting, Trick};

const PSH: u8 = consts::PSH as u8;

/// The most tricks of a plan.
const TRICKS_MAX: usize = 6;
/// Minimum distance in ticks between two repetitions of a trick that sends data: repetitions take at
/// most a few percent of the link, as an honest guest's retransmissions may.
const VOLUME_TICKS: u64 = 256;

/// A trick with its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timed {
    /// The trick that is done.
    pub trick: Trick,
    /// First tick of the trick.
    pub from: u64,
    /// The tick after the last one.
    pub until: u64,
    /// The distance in ticks from one repetition to the next, of a trick that is repeated.
    pub every: u64,
}

/// All that the adversary does; the default is an honest guest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// How the adversary opens its connection.
    pub greeting: Greeting,
    /// Tricks after the connection is open.
    pub tricks: Vec<Timed>,
}

impl Timed {
    /// Draws a trick, its period and its repetitions.
    pub fn draw(random: &mut Stream) -> Timed {
        Timed::at_random_times(Trick::draw(random), random)
    }

    /// Draws the period and the repetitions of a trick.
    pub fn at_random_times(trick: Trick, random: &mut Stream) -> Timed {
        let (from, until) = match random.below(3) {
            0 => {
                let (a, b) = (random.below(TICKS), random.below(TICKS));
                (a.min(b), a.max(b))
            }
            _ => (0, TICKS),
        };
        let until = match trick {
            // a guest that is silent for the whole game has no reward
            Trick::Silent => until.min(from + 1 + random.below(6_000)),
            _ => until,
        };
        let every = 1 + crate::games::of_any_size(random, 12);
        let every = match trick.takes_volume() {
            true => every.max(VOLUME_TICKS),
            false => every,
        };
        Timed {
            trick,
            from,
            until,
            every,
        }
    }

    /// Returns whether the trick is done at this tick.
    #[must_use]
    pub fn is_due(&self, tick: u64) -> bool {
        let lasts = (self.from..self.until).contains(&tick);
        lasts && (!self.trick.is_repeated() || (tick - self.from).is_multiple_of(self.every))
    }
}

impl Plan {
    /// Returns the plan of an honest guest.
    #[must_use]
    pub fn honest() -> Plan {
        Plan {
            greeting: Greeting::Plain,
            tricks: Vec::new(),
        }
    }

    /// Returns the plans of honest guests to compare with. No rule forbids silence, segments below the
    /// MSS, PSH on each of them, or a SYN without window scaling (RFC 7323 is an option), and some of
    /// this gains a few percent by chance: who starts late, say, or whose windows are exact to the
    /// byte. So all of these guests are silent when the plan is, and some do the rest as the plan does.
    #[must_use]
    pub fn without_tricks(&self) -> Vec<Plan> {
        let greetings = [Greeting::Plain, self.greeting];
        let greetings = &greetings[..1 + usize::from(self.greeting == Greeting::Unscaled)];
        let mut plans = Vec::new();
        for &greeting in greetings {
            for (small, pushed) in [(false, false), (true, false), (false, true), (true, true)] {
                let honest = |timed: &Timed| match timed.trick {
                    Trick::Silent => Some(*timed),
                    Trick::Small(_) if small => Some(*timed),
                    Trick::Signals(flags, _) if pushed && flags & PSH != 0 => Some(Timed {
                        trick: Trick::Signals(PSH, 0),
                        ..*timed
                    }),
                    _ => None,
                };
                let tricks = self.tricks.iter().filter_map(honest).collect();
                let plan = Plan { greeting, tricks };
                if !plans.contains(&plan) {
                    plans.push(plan);
                }
            }
        }
        plans
    }

    /// Draws a plan of one to four tricks.
    pub fn draw(random: &mut Stream) -> Plan {
        let greeting = Greeting::draw(random);
        let tricks = (0..1 + random.below(4)).map(|_| Timed::draw(random));
        Plan {
            greeting,
            tricks: tricks.collect(),
        }
    }

    /// Draws a plan with a trick more, less or changed.
    #[must_use]
    pub fn changed(&self, random: &mut Stream) -> Plan {
        let mut plan = self.clone();
        let count = plan.tricks.len();
        let place = random.below(count.max(1) as u64) as usize;
        match random.below(8) {
            0 => plan.greeting = Greeting::draw(random),
            1 | 2 if count < TRICKS_MAX => plan.tricks.push(Timed::draw(random)),
            3 if count > 1 => {
                plan.tricks.remove(place);
            }
            4 | 5 if count > 0 => {
                plan.tricks[place] = Timed::at_random_times(plan.tricks[place].trick, random);
            }
            _ if count > 0 => plan.tricks[place] = Timed::draw(random),
            _ => plan.tricks.push(Timed::draw(random)),
        }
        plan
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.greeting)?;
        for timed in &self.tricks {
            write!(f, "; {:?} {}..{}", timed.trick, timed.from, timed.until)?;
            if timed.trick.is_repeated() {
                write!(f, " every {}", timed.every)?;
            }
        }
        Ok(())
    }
}
