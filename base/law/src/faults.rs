//! Parameters that belong to their law, and are within what it takes.

use uc_core::Law;
use uc_core::parameter::{Row, keys};
use uc_core::{Policy, parameter};

use crate::parameters::Parameters;
use crate::table::Faults;

impl Parameters {
    /// Lists what is wrong with them under this law; no law: there is no program on the port.
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

    /// Lists the parameters that can't be, whichever law they are of.
    pub fn senseless(&self, law: Option<Law>) -> Faults {
        let mut faults = self.out_of_range();
        faults.extend(law.map(|law| self.missing(law)).unwrap_or_default());
        if self.has(keys::OBSERVE) {
            faults.extend(self.idle(law));
        }
        faults
    }

    /// Lists the parameters that have no usual value and are not there.
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
        let message = "changes nothing on a port that only observes; leave out one of them";
        let idle = keys::WRITING.into_iter().filter(|key| self.has(key));
        let mut faults: Faults = idle.map(|key| (key, message.to_owned())).collect();
        if law == Some(Law::COUPLED) {
            let message = "gives no windows, so law coupled has none to share; leave it out, or \
                           observe law ecn";
            faults.push((keys::OBSERVE, message.to_owned()));
        }
        faults
    }
}

/// Says which laws have the parameter, and names the first of them; none if any law but `pass` has
/// it.
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
