//! Options of flows that share windows: law `coupled`, or `--share` with another law.

use anyhow::{Result, bail};
use clap::Args;
use uc_core::coupling::{GroupPolicy, consts};
use uc_law::{Law, PortCoupling};
use uc_words::Bytes;

const COUPLED: &str = "Law coupled";
const SHARE: &str = "Shared windows, with any other law";

/// Options of flows that share windows. An option that is not given means the value in [`PortCoupling::default`].
#[derive(Args, Default)]
pub struct CoupledArguments {
    /// The port's flows share the sum of their windows in proportion to their weights. W, 1 to 255, is the
    /// weight of every flow; PORT=W that of the flows with this TCP port at either end. May be given
    /// several times
    #[arg(long, value_name = "[PORT=]W", value_parser = share, help_heading = SHARE)]
    share: Vec<(Option<u16>, u8)>,
    /// Maximum sum of the flows' windows, such as 256KiB [default: the sum that the law computes]
    #[arg(long, value_name = "SIZE", requires = "share", help_heading = SHARE)]
    share_total: Option<Bytes>,
    /// Weight of the port's guest in each group that its flows belong to, 1 to 255: twice the weight gets
    /// twice the share of the group's window. Also with --share [default: 1]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u8).range(1..),
          help_heading = COUPLED)]
    weight: Option<u8>,
    /// Weight P, 1 to 255, of the flows with this TCP port at either end, among the guest's own flows; other
    /// flows have weight 1. May be given several times
    #[arg(long, value_name = "PORT=P", value_parser = priority, help_heading = COUPLED)]
    priority: Vec<(u16, u8)>,
    /// Number, such as one for each tenant or uplink: this port shares windows only with ports of the same
    /// number [default: 0]. Also with --share; there a port without this option shares with no other port
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..1 << 31),
          help_heading = COUPLED)]
    group: Option<u32>,
    /// Length in bits of the IPv4 remote prefix that identifies a group of flows. 32: one group per remote
    /// host; 0: one group for all [default: 32]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=32),
          help_heading = COUPLED)]
    group_prefix4: Option<u8>,
    /// Length in bits of the IPv6 remote prefix that identifies a group of flows. 128: one group per remote
    /// host; 0: one group for all [default: 128]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=128),
          help_heading = COUPLED)]
    group_prefix6: Option<u8>,
    /// Aggressiveness of a group of n flows, in percent: 0 like one TCP, 100 like n TCPs [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100),
          help_heading = COUPLED)]
    group_aggressiveness: Option<u8>,
    /// Divide the group's rate instead of its window, so that a flow with a longer round-trip time does not
    /// get a smaller share
    #[arg(long, help_heading = COUPLED)]
    group_by_rate: bool,
}

impl CoupledArguments {
    /// Returns how the flows of a port with this law share windows. `None`: each flow has its own window, because the
    /// law is not `coupled` and `--share` was not given.
    ///
    /// # Errors
    /// Options were given that have no meaning under this law; the error names one.
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
        if !self.share.is_empty() {
            return self.of_sum(law).map(Some);
        }
        if law == Law::COUPLED {
            let mut ports: Vec<_> = self.priority.iter().map(|(port, _)| port).collect();
            ports.sort_unstable();
            if let Some(pair) = ports.windows(2).find(|pair| pair[0] == pair[1]) {
                bail!("--priority: port {} is given twice; remove one", pair[0]);
            }
            return Ok(Some(self.of_port()));
        }
        if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
            bail!("--{name} is a parameter of law coupled; add --law coupled, or remove --{name}");
        }
        Ok(None)
    }

    /// Returns how the port's flows divide the sum of the windows that this law computes for them.
    fn of_sum(&self, law: Law) -> Result<PortCoupling> {
        if law == Law::COUPLED || law == Law::PASS {
            let name = law.name();
            bail!(
                "--share divides windows that a law computes for each flow, and law {name} computes \
                 none; add --law ecn, dctcp or delay, or remove --share"
            );
        }
        let given = [
            ("priority", !self.priority.is_empty()),
            ("group-prefix4", self.group_prefix4.is_some()),
            ("group-prefix6", self.group_prefix6.is_some()),
            ("group-aggressiveness", self.group_aggressiveness.is_some()),
            ("group-by-rate", self.group_by_rate),
        ];
        if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
            bail!("--{name} is a parameter of law coupled; remove it, or remove --share");
        }
        let usual = PortCoupling::share(self.group);
        let of_all = self.share.iter().rev().find(|(port, _)| port.is_none());
        let of_port = |&(port, weight): &(Option<u16>, u8)| Some((port?, weight));
        Ok(PortCoupling {
            weight: self.weight.unwrap_or(usual.weight),
            priority: of_all.map_or(usual.priority, |&(_, weight)| weight),
            priorities: self.share.iter().filter_map(of_port).collect(),
            rules: GroupPolicy {
                window_max_bytes: self.share_total.map_or(0, |total| total.0),
                ..usual.rules
            },
            ..usual
        })
    }

    /// Returns how a port with law `coupled` shares windows.
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

fn share(text: &str) -> Result<(Option<u16>, u8), String> {
    if let Ok((port, weight)) = priority(text) {
        return Ok((Some(port), weight));
    }
    match text.parse() {
        Ok(weight) if weight > 0 => Ok((None, weight)),
        _ => Err(
            "expected W or PORT=W, where W is a weight from 1 to 255, such as 3 or 443=3".into(),
        ),
    }
}

fn priority(text: &str) -> Result<(u16, u8), String> {
    let parts = text.split_once('=');
    let read =
        parts.and_then(|(port, priority)| Some((port.parse().ok()?, priority.parse().ok()?)));
    match read {
        Some((port, priority)) if port > 0 && priority > 0 => Ok((port, priority)),
        _ => Err("expected PORT=P, where P is a priority from 1 to 255, such as 443=8".into()),
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
    fn weights_beside_a_law_are_a_sum_of_windows_by_themselves_or_a_tenants() {
        assert_eq!(share("3"), Ok((None, 3)));
        assert_eq!(share("5004=3"), Ok((Some(5004), 3)));
        for text in ["0", "256", "443=0", "=3", "x", ""] {
            assert!(share(text).is_err(), "{text}");
        }
        let arguments = CoupledArguments {
            share: vec![(Some(5004), 3), (None, 2)],
            share_total: Some(Bytes(96_000)),
            ..CoupledArguments::default()
        };
        let expected = PortCoupling {
            group: PortCoupling::OWN,
            prefix4: 0,
            prefix6: 0,
            priority: 2,
            priorities: vec![(5004, 3)],
            rules: GroupPolicy {
                size: consts::SIZE_LAWS as u8,
                window_max_bytes: 96_000,
                ..GroupPolicy::default()
            },
            ..PortCoupling::default()
        };
        for law in [Law::ECN, Law::DCTCP, Law::DELAY] {
            assert_eq!(arguments.coupling(law).unwrap().as_ref(), Some(&expected));
        }
        let tenant = CoupledArguments {
            group: Some(7),
            weight: Some(4),
            ..arguments
        };
        let coupling = tenant.coupling(Law::ECN).unwrap().unwrap();
        assert_eq!((coupling.group, coupling.weight), (7, 4));
        for law in [Law::COUPLED, Law::PASS] {
            let refusal = tenant.coupling(law).unwrap_err().to_string();
            assert!(refusal.contains("--share"), "{refusal}");
        }
        let mixed = CoupledArguments {
            group_by_rate: true,
            ..tenant
        };
        let refusal = mixed.coupling(Law::ECN).unwrap_err().to_string();
        assert!(refusal.contains("--group-by-rate"), "{refusal}");
    }

    #[test]
    fn coupled_options_apply_to_the_port_and_other_laws_refuse_them() {
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
        assert_eq!(arguments.coupling(Law::COUPLED).unwrap(), Some(expected));
        let refusal = arguments.coupling(Law::ECN).unwrap_err().to_string();
        assert!(refusal.contains("--weight") && refusal.contains("--law coupled"));
        let nothing = CoupledArguments::default();
        assert_eq!(nothing.coupling(Law::ECN).unwrap(), None);
        assert_eq!(
            nothing.coupling(Law::COUPLED).unwrap(),
            Some(PortCoupling::default())
        );
    }
}
