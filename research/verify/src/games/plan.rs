//! What the adversary does in a game, and when.

use serde::{Deserialize, Serialize};
use uc_core::consts;
use uc_net::random::Stream;

use crate::games::trick::{Greeting, Trick};
use crate::games::{TICKS, of_any_size};

const PSH: u8 = consts::PSH as u8;

/// Maximum number of tricks of a plan.
const TRICKS_MAX: usize = 40;
/// The tick from which guests have settled. A guest that is silent before may gain or lose by chance.
const SETTLED_TICKS: u64 = 1_500;

/// The events that a trick's times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Clock {
    /// Times count ticks of the game.
    Ticks,
    /// Times count ACKs of new data that the guest has received.
    Acks,
    /// Times count eighths of the flight that were acknowledged: eight of them are a round trip.
    Eighths,
    /// Times count cuts: windows that are smaller by more than an eighth than the largest since the last cut.
    Cuts,
}

/// How often the events of each [`Clock`] have happened.
pub type Counts = [u64; 4];

/// A trick of the guest, with the times at which it is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timed {
    /// The trick that is played.
    pub trick: Trick,
    /// The events that `from`, `until` and `every` count.
    pub clock: Clock,
    /// Number of the first event at which the trick is done, counted by `clock`.
    pub from: u64,
    /// Number of the event from which on the trick is done no more.
    pub until: u64,
    /// Number of events from one repetition to the next, of a trick that is repeated.
    pub every: u64,
    /// How often the trick is done at each repetition.
    pub times: u8,
}

/// All that the adversary does; the default is an honest guest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plan {
    /// How the adversary opens its connection.
    pub greeting: Greeting,
    /// Tricks after the connection is open.
    pub tricks: Vec<Timed>,
}

impl Timed {
    /// Draws a trick and its times.
    pub fn draw(random: &mut Stream) -> Timed {
        Timed::at_random_times(Trick::draw(random), random)
    }

    /// Returns a trick that is in force for the whole game, and repeated every `every` ticks.
    #[must_use]
    pub fn always(trick: Trick, every: u64) -> Timed {
        Timed {
            trick,
            clock: Clock::Ticks,
            from: 0,
            until: TICKS,
            every,
            times: 1,
        }
    }

    /// Draws the times of a trick.
    pub fn at_random_times(trick: Trick, random: &mut Stream) -> Timed {
        let clock = match random.below(8) {
            // no ACK ends a silence
            _ if trick.is_silence() => Clock::Ticks,
            0 | 1 => Clock::Ticks,
            2 | 3 => Clock::Acks,
            4..7 => Clock::Eighths,
            _ => Clock::Cuts,
        };
        // bits of the number of events in a game, and of the distance between two
        let (all, apart) = match clock {
            Clock::Ticks => (15, 12),
            Clock::Acks => (14, 8),
            Clock::Eighths => (12, 5),
            Clock::Cuts => (8, 3),
        };
        let from = match random.below(3) {
            _ if trick.is_silence() => SETTLED_TICKS + of_any_size(random, 14),
            0 => of_any_size(random, all),
            _ => 0,
        };
        let until = match trick {
            // a guest that is silent for the whole game has no reward
            _ if trick.is_silence() => from + 1 + of_any_size(random, 12),
            _ if random.below(3) == 0 => from + 1 + of_any_size(random, all),
            _ => TICKS,
        };
        Timed {
            trick,
            clock,
            from,
            until,
            every: 1 + of_any_size(random, apart),
            times: 1 + of_any_size(random, 3) as u8,
        }
    }

    /// Returns the trick with one of its times a little earlier, later or more often.
    fn nudged(self, random: &mut Stream) -> Timed {
        let which = random.below(4);
        let least = if self.trick.is_silence() {
            SETTLED_TICKS
        } else {
            0
        };
        let mut near = |number: u64, least: u64| {
            let step = 1 + of_any_size(random, 64 - u64::from((number | 1).leading_zeros()));
            match random.below(2) {
                0 => number.saturating_sub(step).max(least),
                _ => number + step,
            }
        };
        match which {
            0 => Timed {
                from: near(self.from, least),
                ..self
            },
            1 => Timed {
                until: near(self.until, 1),
                ..self
            },
            2 => Timed {
                every: near(self.every, 1),
                ..self
            },
            _ => Timed {
                times: near(self.times.into(), 1).min(8) as u8,
                ..self
            },
        }
    }

    /// Returns whether the trick is in force when events have happened as often as `since` says.
    #[must_use]
    pub fn lasts(&self, since: &Counts) -> bool {
        (self.from..self.until).contains(&since[self.clock as usize])
    }

    /// Returns whether a repetition of the trick is due at one of the events from `since` to `now`, the latter
    /// excluded.
    #[must_use]
    pub fn is_due(&self, since: &Counts, now: &Counts) -> bool {
        let begin = since[self.clock as usize].max(self.from);
        let end = now[self.clock as usize].min(self.until);
        let due = self.from + (begin - self.from).next_multiple_of(self.every);
        due < end
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

    /// Returns the plans of honest guests to compare with. No rule forbids silence, segments below the MSS, PSH on each
    /// segment, or a SYN without window scaling or SACK (both are options). Some of this gains a few percent by chance,
    /// such as a late start, or windows that are exact to the byte. So all of these guests are silent when the plan is,
    /// and some do the rest as the plan does.
    #[must_use]
    pub fn without_tricks(&self) -> Vec<Plan> {
        let greetings = [Greeting::Plain, self.greeting];
        let is_honest = matches!(self.greeting, Greeting::Unscaled | Greeting::Unsacked);
        let mut plans = Vec::new();
        for &greeting in &greetings[..1 + usize::from(is_honest)] {
            for bits in 0..8 {
                let (small, pushed, hidden) = (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0);
                let plan = self.honestly(greeting, small, pushed, hidden);
                if !plans.contains(&plan) {
                    plans.push(plan);
                }
            }
        }
        plans
    }

    /// Returns an honest guest that is silent when the plan is. It also sends small segments (`small`) and PSH
    /// (`pushed`) as the plan does, and sends nothing while the plan hides its data (`hidden`).
    fn honestly(&self, greeting: Greeting, small: bool, pushed: bool, hidden: bool) -> Plan {
        let honest = |timed: &Timed| match timed.trick {
            Trick::Silent => Some(*timed),
            Trick::Small(_) if small => Some(*timed),
            Trick::Hidden(_) if hidden => Some(Timed {
                trick: Trick::Silent,
                ..*timed
            }),
            Trick::Signals(flags, _) if pushed && flags & PSH != 0 => Some(Timed {
                trick: Trick::Signals(PSH, 0),
                ..*timed
            }),
            _ => None,
        };
        Plan {
            greeting,
            tricks: self.tricks.iter().filter_map(honest).collect(),
        }
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

    /// Draws a plan with tricks added, removed or changed, some of them from the plan `mate`.
    #[must_use]
    pub fn changed(&self, mate: &Plan, random: &mut Stream) -> Plan {
        let mut plan = self.clone();
        for _ in 0..1 + of_any_size(random, 3) {
            let count = plan.tricks.len();
            let place = random.below(count.max(1) as u64) as usize;
            match random.below(12) {
                0 => plan.greeting = Greeting::draw(random),
                1 | 2 => plan.tricks.push(Timed::draw(random)),
                3 => {
                    let from = random.below(mate.tricks.len() as u64 + 1) as usize;
                    plan.tricks.extend_from_slice(&mate.tricks[from..]);
                }
                _ if count == 0 => plan.tricks.push(Timed::draw(random)),
                4 | 5 => _ = plan.tricks.remove(place),
                6 => {
                    plan.tricks[place] = Timed::at_random_times(plan.tricks[place].trick, random);
                }
                7 => plan.tricks[place] = Timed::draw(random),
                8 => plan.tricks[place].trick = plan.tricks[place].trick.redrawn(random),
                _ => plan.tricks[place] = plan.tricks[place].nudged(random),
            }
        }
        plan.tricks.truncate(TRICKS_MAX);
        plan
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

impl std::str::FromStr for Plan {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Plan, serde_json::Error> {
        serde_json::from_str(text)
    }
}
