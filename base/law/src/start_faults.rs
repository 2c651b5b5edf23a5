//! Starts that can be.

use crate::faults::{Faults, fault_of};
use crate::start::Watch;

impl Watch {
    /// What is wrong with them, each with the parameter's name.
    pub fn faults(&self) -> Faults {
        let mut faults = Faults::new();
        let few = self.probes.is_none_or(|n| n <= Self::PROBES_MAX);
        fault_of(&mut faults, few, "probes", || {
            format!("more than {}; give at most that", Self::PROBES_MAX)
        });
        let least = self.least.is_none_or(|n| Self::LEAST.contains(&n));
        fault_of(&mut faults, least, "least", || {
            format!(
                "give {} to {} segments: under two, a receiver delays the ACK of the only one",
                Self::LEAST.start(),
                Self::LEAST.end()
            )
        });
        fault_of(&mut faults, self.rounds != Some(0), "rounds", || {
            "is 0; a start has at least one round: give 1 or more".into()
        });
        fault_of(&mut faults, self.part != Some(0), "part", || {
            "is 0; give 2 for the half of a round trip, or another part of it".into()
        });
        let least = self.marked_part.is_none_or(|part| part >= 2);
        fault_of(&mut faults, least, "marked_part", || {
            "is more than the half; give 2 for that, or a smaller part: 4 is a quarter".into()
        });
        self.check_times(&mut faults);
        let fast = self.pace.is_none_or(|pace| pace >= Self::PACE_MIN);
        fault_of(&mut faults, fast, "pace", || {
            format!(
                "is below {}, where nothing would start; give more, or wait = \"0s\"",
                Self::PACE_MIN
            )
        });
        faults
    }

    fn check_times(&self, faults: &mut Faults) {
        for (name, value, most) in [
            ("span", self.span, *Self::SPAN.end()),
            ("wait", self.wait, Self::WAIT_MAX),
            ("late", self.late, Self::LATE_MAX),
            ("fresh", self.fresh, Self::RECORD_MAX),
            ("idle", self.idle, Self::RECORD_MAX),
        ] {
            fault_of(
                faults,
                value.is_none_or(|value| value <= most),
                name,
                || format!("is more than {most}; give at most that"),
            );
        }
        let least = *Self::SPAN.start();
        let span = self.span.is_none_or(|span| span >= least);
        fault_of(faults, span, "span", || {
            format!("is below {least}; give that or more, or probes = 0")
        });
    }
}
