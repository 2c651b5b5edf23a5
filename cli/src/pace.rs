//! The rate at which first windows are granted: `uc watch --pace`.

use std::str::FromStr;

use anyhow::Result;
use uc_core::watch::StartPolicy;
use uc_law::{Table, Value, Watch, start_keys};
use uc_port::{Uplink, uplink};
use uc_words::BitsPerSec;

/// The rate at which a port's flows get their first windows, one flow after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// The rate of the uplink through which the port's packets leave.
    #[default]
    Auto,
    /// A rate that the operator gave.
    Rate(BitsPerSec),
    /// No pacing: first windows are granted at once.
    None,
}

/// Parses a rate at which first windows can be granted.
///
/// # Errors
/// The text is no rate, or the rate is so low that no flow would start.
pub fn rate(text: &str) -> Result<BitsPerSec, String> {
    let row =
        StartPolicy::row(start_keys::PACE).ok_or("the start-up control has no parameter `pace`")?;
    let slowest = Watch::slowest_pace();
    match Value::parse(row, text)? {
        Value::Rate(rate) if rate >= slowest => Ok(rate),
        _ => Err(format!(
            "the rate is below {slowest}, the slowest pace; give {slowest} or more"
        )),
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        match text {
            "auto" => Ok(Pace::Auto),
            "none" => Ok(Pace::None),
            _ => match rate(text) {
                Ok(rate) => Ok(Pace::Rate(rate)),
                Err(error) => Err(format!("{error}; or give auto or none")),
            },
        }
    }
}

impl Pace {
    /// Returns the pace of settings that an agent has sent: their rate, or the uplink's if the rate is 0.
    pub fn of(policy: &StartPolicy) -> Pace {
        match policy.pace_bytes_per_s {
            0 => Pace::Auto,
            bytes_per_s => Pace::Rate(BitsPerSec(bytes_per_s.saturating_mul(8))),
        }
    }

    /// Writes the pacing rate into the policy of the port with this index; 0 means no pacing. Returns the uplink whose
    /// rate was used; `None` if the operator gave a rate or no pacing, or if no uplink has a known rate.
    ///
    /// # Errors
    /// The kernel refuses to list devices or routes.
    pub fn set(self, policy: &mut StartPolicy, ifindex: u32) -> Result<Option<Uplink>> {
        let found = match self {
            Pace::Auto if policy.wait_us > 0 => uplink(ifindex)?,
            _ => None,
        };
        let rate = match (self, &found) {
            (Pace::Rate(rate), _) => rate,
            (_, Some(uplink)) => uplink.rate,
            _ => BitsPerSec(0),
        };
        policy.pace_bytes_per_s = rate.0 / 8;
        Ok(found)
    }

    /// Prints a warning if the uplink's rate should pace a port's first windows, but is not known.
    pub fn warn(self, port: &str, uplink: Option<&Uplink>, policy: &StartPolicy) {
        if uplink.is_none() && self == Pace::Auto && policy.wait_us > 0 {
            errln!(
                "uc: {port}: no uplink with a known rate, so first windows are given at once; give the rate of its \
                 link with --pace RATE"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_rate_or_one_of_two_words() {
        for (text, pace) in [
            ("auto", Ok(Pace::Auto)),
            ("none", Ok(Pace::None)),
            ("10Gbit", Ok(Pace::Rate(BitsPerSec(10_000_000_000)))),
            ("100kbit", Ok(Pace::Rate(BitsPerSec(100_000)))),
        ] {
            assert_eq!(text.parse(), pace, "{text}");
        }
        for (text, part) in [
            ("99kbit", "below 100kbit"),
            ("0bit", "auto or none"),
            ("fast", ""),
        ] {
            let error = text.parse::<Pace>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_given_rate_is_set_and_others_are_looked_up_only_where_windows_wait() {
        let mut policy = StartPolicy::usual();
        let rate = Pace::Rate(BitsPerSec(80_000_000));
        assert_eq!(rate.set(&mut policy, u32::MAX).unwrap(), None);
        assert_eq!(policy.pace_bytes_per_s, 10_000_000);
        assert_eq!(Pace::of(&policy), rate);
        assert_eq!(Pace::None.set(&mut policy, u32::MAX).unwrap(), None);
        assert_eq!(policy.pace_bytes_per_s, 0);
        assert_eq!(Pace::of(&policy), Pace::Auto);
        policy.wait_us = 0;
        assert_eq!(Pace::Auto.set(&mut policy, u32::MAX).unwrap(), None);
        assert_eq!(policy.pace_bytes_per_s, 0);
    }
}
