//! What an operator can choose about the groups of law `coupled`, on the command line.

use anyhow::{Result, bail};
use clap::Args;
use uc_core::coupling::{GroupPolicy, consts};
use uc_experiment::Law;
use uc_port::PortCoupling;

const COUPLED: &str = "Law coupled";

/// Each as [`PortCoupling::default`] has it where it is not given.
#[derive(Args, Default)]
pub struct CoupledArguments {
    /// The guest's part of its groups' windows: twice the number is twice the share, 1 to 255
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u8).range(1..),
          help_heading = COUPLED)]
    weight: Option<u8>,
    /// The part of flows with this TCP port at either end among the guest's own, 1 to 255; may be
    /// given several times
    #[arg(long, value_name = "PORT=P", value_parser = priority, help_heading = COUPLED)]
    priority: Vec<(u16, u8)>,
    /// Ports of different numbers share nothing: one for each tenant, or for each uplink
    #[arg(long, value_name = "N", help_heading = COUPLED)]
    group: Option<u32>,
    /// Bits of an IPv4 remote address that name a group: 32, each remote host; 0, all of them
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=32),
          help_heading = COUPLED)]
    group_prefix4: Option<u8>,
    /// The same for IPv6; 128: each remote host
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=128),
          help_heading = COUPLED)]
    group_prefix6: Option<u8>,
    /// How aggressive a group of n flows is: 0 as one TCP, 100 as n TCPs
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100),
          help_heading = COUPLED)]
    group_aggressiveness: Option<u8>,
    /// Divide the rate, not the window: a longer path makes no smaller share
    #[arg(long, help_heading = COUPLED)]
    group_by_rate: bool,
}

impl CoupledArguments {
    /// Whose window the flows of a port with this law share; nobody's if not law `coupled`.
    ///
    /// # Errors
    /// If something was given that the law has no use for.
    pub fn coupling(&self, law: Law) -> Result<Option<PortCoupling>> {
        let given = [
            ("weight", self.weight.is_some()),
            ("priority", !self.priority.is_empty()),
            ("group", self.group.is_some()),
            ("group-prefix4", self.group_prefix4.is_some()),
            ("group-prefix6", self.group_prefix6.is_some()),
            ("group-aggressiveness", self.group_aggressiveness.is_some()),
            ("group-by-rate", self.group_by_rate),
        ];
        if law == Law::Coupled {
            return Ok(Some(self.of_port()));
        }
        if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
            bail!("--{name} is a parameter of law coupled: add --law coupled, or leave it out");
        }
        Ok(None)
    }

    fn of_port(&self) -> PortCoupling {
        let usual = PortCoupling::default();
        let percent = u32::from(self.group_aggressiveness.unwrap_or(0));
        let shares = if self.group_by_rate {
            consts::BY_RATE
        } else {
            consts::BY_WINDOW
        };
        PortCoupling {
            group: self.group.unwrap_or(usual.group),
            prefix4: self.group_prefix4.unwrap_or(usual.prefix4),
            prefix6: self.group_prefix6.unwrap_or(usual.prefix6),
            weight: self.weight.unwrap_or(usual.weight),
            priorities: self.priority.clone(),
            rules: GroupPolicy {
                aggressiveness_q16: percent * 65_536 / 100,
                shares: shares as u8,
                ..GroupPolicy::default()
            },
            ..usual
        }
    }
}

fn priority(text: &str) -> Result<(u16, u8), String> {
    let parts = text.split_once('=');
    let read =
        parts.and_then(|(port, priority)| Some((port.parse().ok()?, priority.parse().ok()?)));
    match read {
        Some((port, priority)) if port > 0 && priority > 0 => Ok((port, priority)),
        _ => Err("not a TCP port, = and 1 to 255, such as 443=8".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_a_port_and_a_number_from_1_to_255() {
        assert_eq!(priority("443=8"), Ok((443, 8)));
        assert_eq!(priority("65535=255"), Ok((65_535, 255)));
        for text in ["443", "443=0", "0=8", "443=256", "65536=1", "a=b", "=", ""] {
            assert!(priority(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_given_is_the_ports_and_other_laws_refuse_it() {
        let arguments = CoupledArguments {
            weight: Some(3),
            group_prefix4: Some(0),
            group_aggressiveness: Some(50),
            group_by_rate: true,
            ..CoupledArguments::default()
        };
        let expected = PortCoupling {
            weight: 3,
            prefix4: 0,
            rules: GroupPolicy {
                aggressiveness_q16: 32_768,
                shares: consts::BY_RATE as u8,
                ..GroupPolicy::default()
            },
            ..PortCoupling::default()
        };
        assert_eq!(arguments.coupling(Law::Coupled).unwrap(), Some(expected));
        let refusal = arguments.coupling(Law::Ecn).unwrap_err().to_string();
        assert!(refusal.contains("--weight") && refusal.contains("--law coupled"));
        let nothing = CoupledArguments::default();
        assert_eq!(nothing.coupling(Law::Ecn).unwrap(), None);
        assert_eq!(
            nothing.coupling(Law::Coupled).unwrap(),
            Some(PortCoupling::default())
        );
    }
}
