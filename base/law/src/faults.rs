//! Parameters that belong to their law, and are within what it takes.

use crate::law::Law;
use crate::parameters::{Parameters, TARGET_MIN};

/// The estimate's gain is a shift: 1/2 to 1/1024.
const GAIN_MAX: u8 = 10;

/// What is wrong with the keys of one table: each key's name, and what is wrong with it.
pub type Faults = Vec<(&'static str, String)>;

/// Notes the fault unless the condition holds.
pub(crate) fn fault_of(
    faults: &mut Faults,
    holds: bool,
    key: &'static str,
    message: impl FnOnce() -> String,
) {
    if !holds {
        faults.push((key, message()));
    }
}

impl Parameters {
    /// Each parameter with whether it was chosen, and the one law that has a use for it; none: every
    /// law but `pass` has.
    pub fn owners(&self) -> [(&'static str, bool, Option<Law>); 10] {
        [
            ("beta", self.beta.is_some(), Some(Law::Dctcp)),
            ("gain", self.gain.is_some(), Some(Law::Dctcp)),
            ("alpha", self.alpha.is_some(), Some(Law::Dctcp)),
            ("min_window", self.min_window.is_some(), Some(Law::Dctcp)),
            ("echo", self.echo.is_some(), Some(Law::Dctcp)),
            ("target", self.target.is_some(), Some(Law::Delay)),
            (
                "target_range",
                self.target_range.is_some(),
                Some(Law::Delay),
            ),
            ("guest_ecn", self.guest_ecn.is_some(), None),
            ("guard", self.guard.is_some(), None),
            ("observe", self.observe, None),
        ]
    }

    /// Those that the law has a use for.
    pub fn under(self, law: Law) -> Parameters {
        let Parameters {
            beta,
            gain,
            alpha,
            min_window,
            echo,
            target,
            target_range,
            guest_ecn,
            guard,
            observe,
        } = self;
        let (dctcp, delay) = (law == Law::Dctcp, law == Law::Delay);
        let any = law != Law::Pass;
        Parameters {
            beta: beta.filter(|_| dctcp),
            gain: gain.filter(|_| dctcp),
            alpha: alpha.filter(|_| dctcp),
            min_window: min_window.filter(|_| dctcp),
            echo: echo.filter(|_| dctcp),
            target: target.filter(|_| delay),
            target_range: target_range.filter(|_| delay),
            guest_ecn: guest_ecn.filter(|_| any),
            guard: guard.filter(|_| any),
            observe: observe && any,
        }
    }

    /// What is wrong with them under this law, each with the parameter's name; no law: there is no
    /// program on the port.
    pub fn faults(&self, law: Option<Law>) -> Faults {
        let mut faults = self.misplaced(law);
        faults.extend(self.senseless(law));
        faults
    }

    /// Those that can't be, whosever they are.
    pub fn senseless(&self, law: Option<Law>) -> Faults {
        let mut faults = Faults::new();
        for (name, value) in [("beta", self.beta), ("alpha", self.alpha)] {
            let value = value.unwrap_or_default();
            fault_of(&mut faults, (0.0..=1.0).contains(&value), name, || {
                format!("is {value}; give 0 to 1")
            });
        }
        self.check_target(law, &mut faults);
        let gain = self.gain.unwrap_or(1);
        fault_of(&mut faults, (1..=GAIN_MAX).contains(&gain), "gain", || {
            format!("is {gain}; the gain is 1/2^gain: give 1 to {GAIN_MAX}")
        });
        fault_of(
            &mut faults,
            self.min_window != Some(0),
            "min_window",
            || "is 0; a window has at least one segment: give 1 or more".into(),
        );
        fault_of(&mut faults, self.guard != Some(0), "guard", || {
            "is 0; leave it out for no guard, or give 1 to 255 segments".into()
        });
        self.check_observe(law, &mut faults);
        faults
    }

    /// Who only looks has no use for what would be written.
    fn check_observe(&self, law: Option<Law>, faults: &mut Faults) {
        let idle = self.observe && self.guard.is_some();
        fault_of(faults, !idle, "guard", || {
            "drops nothing on a port that only observes; leave out one of them".into()
        });
        let idle = self.observe && law == Some(Law::Coupled);
        fault_of(faults, !idle, "observe", || {
            "gives no windows, so law coupled has none to share; leave it out, or observe law ecn"
                .into()
        });
        let idle = self.observe && self.guest_ecn.is_some();
        fault_of(faults, !idle, "guest_ecn", || {
            "changes nothing on a port that only observes; leave out one of them".into()
        });
    }

    /// Law `delay` keeps to a round-trip time that only who knows the path can tell.
    fn check_target(&self, law: Option<Law>, faults: &mut Faults) {
        let told = self.target.is_some() || law != Some(Law::Delay);
        fault_of(faults, told, "target", || {
            "missing, and law delay has no default; give an idle path's round-trip time and what \
             the queue may add to it, for example 150us"
                .into()
        });
        let least = TARGET_MIN;
        let long = self.target.is_none_or(|target| target >= least);
        fault_of(faults, long, "target", || {
            format!("is below {least}; give for example 150us")
        });
    }

    /// Those that the law has no use for.
    pub fn misplaced(&self, law: Option<Law>) -> Faults {
        let mut faults = Faults::new();
        let has_law = law.is_some_and(|law| law != Law::Pass);
        for (name, is_set, owner) in self.owners() {
            let owned = match owner {
                Some(owner) => law == Some(owner),
                None => has_law,
            };
            fault_of(&mut faults, owned || !is_set, name, || match owner {
                Some(owner) => {
                    let law = owner.name();
                    format!("is a parameter of law {law}; add law = \"{law}\", or leave it out")
                }
                None => {
                    "is for a law on the port; add for example law = \"dctcp\", or leave it out"
                        .into()
                }
            });
        }
        faults
    }
}
