//! Which rule a flow falls under, against a reading of the same rule that shares no line with it.

use crate::naive;

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::flows::seeded::for_all;
use crate::naive::{flows_near, naive_rules};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::rule::{Match, Prefix, PrefixError, Rule};
use uc_core::{Policy, consts};

#[test]
fn a_match_holds_exactly_where_a_naive_reading_of_it_does() {
    for_all(2_000, &flows_near(naive_rules()), |(rule, flows)| {
        for flow in &flows {
            prop_assert_eq!(
                rule.compile().matches(flow.local, flow.remote, flow.dscp),
                rule.holds(flow),
                "{:?} of {:?}",
                flow,
                rule
            );
        }
        Ok(())
    });
}

#[test]
fn compiled_rules_read_back_unchanged() {
    let cases = (naive_rules(), any::<u8>(), any::<u16>());
    for_all(500, &cases, |(rule, share, number)| {
        let rule = Rule {
            matches: rule.compile(),
            policy: Policy::new(consts::LAW_DCTCP, consts::PROFILE_RFC),
            share,
            number,
        };
        prop_assert_eq!(Rule::of_compiled(&rule.compile()), rule);
        Ok(())
    });
}

#[test]
fn a_match_that_covers_another_matches_all_that_the_other_does() {
    let covered = Cell::new(0u32);
    let cases = (naive_rules(), flows_near(naive_rules()));
    for_all(4_000, &cases, |(one, (other, flows))| {
        if one.compile().covers(&other.compile()) {
            for flow in flows.iter().filter(|flow| other.holds(flow)) {
                covered.set(covered.get() + 1);
                prop_assert!(one.holds(flow), "{:?} covers {:?}", one, other);
            }
        }
        Ok(())
    });
    assert!(covered.get() > 50, "only {} flows", covered.get());
}

#[test]
fn a_prefix_takes_no_bit_behind_it() {
    for_all(2_000, &(any::<[u8; 4]>(), 0u8..=40), |(octets, bits)| {
        let address = IpAddr::from(octets);
        let cut = u32::from_be_bytes(octets) & naive::mask32(bits);
        match Prefix::new(address, bits) {
            Ok(prefix) => {
                prop_assert_eq!(cut, u32::from_be_bytes(octets));
                prop_assert_eq!(prefix.to_string(), format!("{address}/{bits}"));
                prop_assert!(prefix.is_ipv4());
            }
            Err(PrefixError::TooLong { bits_max, .. }) => prop_assert!(bits > bits_max),
            Err(PrefixError::HostBits { meant }) => {
                let expected = format!("{}/{bits}", Ipv4Addr::from(cut));
                prop_assert_eq!(meant.to_string(), expected);
            }
            Err(PrefixError::Malformed) => prop_assert!(false, "no text was read"),
        }
        Ok(())
    });
}

#[test]
fn the_first_of_many_rules_that_holds_is_the_same_in_both_readings() {
    let cases = (vec(naive_rules(), 0..40), flows_near(naive_rules()));
    for_all(500, &cases, |(rules, (_, flows))| {
        for flow in &flows {
            let compiled = rules
                .iter()
                .position(|rule| rule.compile().matches(flow.local, flow.remote, flow.dscp));
            prop_assert_eq!(compiled, rules.iter().position(|rule| rule.holds(flow)));
            prop_assert!(Match::ALL.matches(flow.local, flow.remote, flow.dscp));
        }
        Ok(())
    });
}

#[test]
fn an_ipv4_prefix_of_no_bits_is_of_ipv4_alone_and_the_one_of_ipv6_is_of_both() {
    let of = |remote: Prefix| Match {
        remote,
        ..Match::ALL
    };
    let v4: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let v6: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
    let only_v4 = of(Prefix::new("0.0.0.0".parse().unwrap(), 0).unwrap());
    assert!(only_v4.matches(v4, v4, 0) && !only_v4.matches(v6, v6, 0));
    let both = of(Prefix::new("::".parse().unwrap(), 0).unwrap());
    assert!(both.matches(v4, v4, 0) && both.matches(v6, v6, 0));
    assert_eq!(both.remote, Prefix::ANY);
}
