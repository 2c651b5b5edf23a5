//! Checks of parameters: whether the law has them, and whether it accepts their values.

use uc_core::Law;
use uc_core::parameter::{Row, keys};
use uc_core::{Policy, parameter};

use crate::parameters::Parameters;
use crate::table::Faults;

impl Parameters {
    /// Lists the parameters that are wrong under this law, each with the reason; `None`: the port has no
    /// programs.
    pub fn faults(&self, law: Option<Law>) -> Faults {
        let mut faults = self.misplaced(law);
        faults.extend(self.senseless(law));
        faults
    }

    /// Lists the parameters that the law doesn't have.
    pub fn misplaced(&self, law: Option<Law>) -> Faults {
        let foreign = |row: &Row<Policy>| !law.is_some_and(|law| row.is_of(law));
        let rows = self.iter().map(|(row, _)| row).filter(|row| foreign(row));
        rows.map(|row| {
            let message = match owner(row) {
                Some((what, law)) => {
                    format!("is a parameter of {what}; add law = \"{law}\", or leave it out")
                }
                None => {
                    "is for a law on the port; add for example law = \"dctcp\", or leave it out"
                        .to_owned()
                }
            };
            (row.key, message)
        })
        .collect()
    }

    /// Lists the parameters that are out of range, that the law needs and that are missing, or that have no effect
    /// because of `observe`.
    pub fn senseless(&self, law: Option<Law>) -> Faults {
        let mut faults = self.out_of_range();
        faults.extend(law.map(|law| self.missing(law)).unwrap_or_default());
        if self.has(keys::OBSERVE) {
            faults.extend(self.idle(law));
        }
        faults
    }

    /// Lists the parameters that must be given and are missing.
    fn missing(&self, law: Law) -> Faults {
        let needed = |row: &&Row<Policy>| row.usual.is_none() && row.is_of(law);
        let rows = parameter::parameters().iter().filter(needed);
        rows.filter(|row| !self.has(row.key))
            .map(|row| {
                let message = format!(
                    "missing, and law {} has no default; give {}",
                    law.name(),
                    row.what
                );
                (row.key, message)
            })
            .collect()
    }

    /// Lists the settings that have no effect at a port with `observe`, which changes no packet.
    fn idle(&self, law: Option<Law>) -> Faults {
        let message =
            "has no effect with `observe`, which changes no packet; remove this key or `observe`";
        let idle = keys::WRITING.into_iter().filter(|key| self.has(key));
        let mut faults: Faults = idle.map(|key| (key, message.to_owned())).collect();
        if law == Some(Law::COUPLED) {
            let message = "writes no windows, so law coupled has none to share; remove `observe`, or \
                           observe law ecn";
            faults.push((keys::OBSERVE, message.to_owned()));
        }
        faults
    }
}

/// Returns which laws have the parameter, in words, and the first of these laws; `None` if every law but `pass` has it.
pub fn owner(row: &Row<Policy>) -> Option<(String, Law)> {
    if row.is_of_any_law() {
        return None;
    }
    let laws: Vec<Law> = row.laws().collect();
    let names: Vec<&str> = laws.iter().map(|law| law.name()).collect();
    let what = match names.len() {
        1 => format!("law {}", names[0]),
        _ => format!("laws {}", names.join(", ")),
    };
    Some((what, *laws.first()?))
}
