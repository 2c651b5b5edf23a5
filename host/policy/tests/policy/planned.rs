//! Plans of random policies compared with a plain reading of the file.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use uc_core::consts;
use uc_core::rule::RULES_MAX;
use uc_law::PortCoupling;
use uc_policy::file::{RuleTable, SelectionTable, TenantTable, TreatmentTable};
use uc_policy::list::{List, Scalar};
use uc_policy::{Policy, PolicyFile};

use crate::written::{print, sound};

const LAWS: [&str; 3] = ["pass", "ecn", "dctcp"];

/// A flow for the plain reading.
#[derive(Clone, Copy, Debug)]
struct Flow {
    local: SocketAddr,
    remote: SocketAddr,
    dscp: u8,
}

fn texts<T>(list: &Option<List<T>>) -> Option<Vec<String>> {
    let value = serde_json::to_value(list.as_ref()?).unwrap();
    let one = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(match &value {
        serde_json::Value::Array(list) => list.iter().map(one).collect(),
        other => vec![one(other)],
    })
}

fn any<T>(list: &Option<List<T>>, holds: impl Fn(&str) -> bool) -> bool {
    texts(list).is_none_or(|texts| texts.iter().any(|text| holds(text)))
}

/// Returns whether the name matches; in these tests a star is only ever last.
fn named(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

fn inside(prefix: &str, address: IpAddr) -> bool {
    let (network, bits) = prefix.split_once('/').unwrap_or((prefix, "128"));
    let bits: u32 = bits.parse().unwrap();
    match (network.parse().unwrap(), address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let shift = 32_u32.saturating_sub(bits);
            u32::from(network).checked_shr(shift) == u32::from(address).checked_shr(shift)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let shift = 128 - bits;
            u128::from(network).checked_shr(shift) == u128::from(address).checked_shr(shift)
        }
        _ => false,
    }
}

fn within(range: &str, port: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    first.parse::<u16>().unwrap() <= port && port <= last.parse::<u16>().unwrap()
}

fn marked(name: &str, dscp: u8) -> bool {
    let number = match name {
        "EF" => 46,
        "AF11" => 10,
        number => number.parse().unwrap(),
    };
    number == dscp
}

fn about(selection: &SelectionTable, tenant: Option<&str>, port: &str, flow: &Flow) -> bool {
    selection
        .tenant
        .as_deref()
        .is_none_or(|name| tenant == Some(name))
        && any(&selection.port, |pattern| named(pattern, port))
        && any(&selection.local, |prefix| inside(prefix, flow.local.ip()))
        && any(&selection.remote, |prefix| inside(prefix, flow.remote.ip()))
        && any(&selection.local_port, |range| {
            within(range, flow.local.port())
        })
        && any(&selection.remote_port, |range| {
            within(range, flow.remote.port())
        })
        && any(&selection.dscp, |name| marked(name, flow.dscp))
}

/// Returns the law by a plain reading of the file; `None` if the port isn't in it.
fn naive(file: &PolicyFile, port: &str, flow: &Flow) -> Option<u8> {
    let owns = |tenant: &&TenantTable| any(&tenant.identity.ports, |pattern| named(pattern, port));
    let tenant = file.tenants.iter().find(owns);
    let tenant = tenant.map(|tenant| tenant.identity.name.as_deref().unwrap());
    let named_by_rule = file.rules.iter().any(|rule| {
        rule.selection.tenant.is_none()
            && rule.selection.port.is_some()
            && any(&rule.selection.port, |pattern| named(pattern, port))
    });
    if tenant.is_none() && !named_by_rule {
        return None;
    }
    let rule = file
        .rules
        .iter()
        .find(|rule| about(&rule.selection, tenant, port, flow));
    let law = rule
        .and_then(|rule| rule.treatment.law)
        .or(file.defaults.treatment.law);
    Some(law.map_or(0, |law| {
        LAWS.iter().position(|name| *name == law.name()).unwrap() as u8
    }))
}

/// Returns the law that the port's programs would find.
fn planned(policy: &Policy, port: &str, flow: &Flow) -> Option<u8> {
    let planned = policy.plan_for(&[port])?;
    let rule = planned
        .port
        .rules
        .iter()
        .find(|rule| rule.matches.matches(flow.local, flow.remote, flow.dscp));
    Some(rule.map_or(consts::LAW_PASS as u8, |rule| rule.policy.law))
}

fn flow() -> impl Strategy<Value = Flow> {
    let family = |addresses: &[&'static str]| {
        let port = prop::sample::select(vec![1_u16, 80, 443, 5001, 6000, 6999, 7000]);
        let end = (prop::sample::select(addresses.to_vec()), port)
            .prop_map(|(address, port)| SocketAddr::new(address.parse().unwrap(), port));
        let dscp = prop::sample::select(vec![0_u8, 10, 46, 63]);
        (end.clone(), end, dscp).prop_map(|(local, remote, dscp)| Flow {
            local,
            remote,
            dscp,
        })
    };
    prop_oneof![
        family(&["10.0.0.1", "10.1.0.1", "10.1.2.3", "192.0.2.1"]),
        family(&["fd00::1", "fd00:1::1", "2001:db8::1"]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_first_matching_rule_decides_as_in_a_plain_reading(
        policy in sound(),
        flows in prop::collection::vec(flow(), 40),
    ) {
        for port in ["vnet1", "vnet12", "tap3", "tap30", "eth0", "lo"] {
            for flow in &flows {
                let expected = naive(&policy.file, port, flow);
                let found = planned(&policy, port, flow);
                prop_assert_eq!(found, expected, "{} {:?}\n{}", port, flow, print(&policy.file));
            }
            let plan = policy.plan_for(&[port]);
            let fits = plan.is_none_or(|plan| {
                plan.port.rules.len() <= RULES_MAX && plan.port.rules.len() == plan.origins.len()
            });
            prop_assert!(fits);
        }
    }
}

#[test]
fn profile_is_of_the_ports_that_its_rule_names() {
    let text = "[[tenant]]\nname = \"a\"\nports = \"vnet*\"\nfiltered_addresses = true\n\
                [[tenant]]\nname = \"b\"\nports = \"tap0\"\n\
                [[rule]]\nport = \"vnet3\"\nlaw = \"ecn\"\nprofile = \"rfc\"\n\
                [defaults]\nlaw = \"ecn\"\n";
    let policy = Policy::parse("t.toml", text).unwrap();
    for (port, profile, is_filtered) in [
        ("vnet3", consts::PROFILE_RFC, true),
        ("vnet4", consts::PROFILE_LINUX, true),
        ("tap0", consts::PROFILE_LINUX, false),
    ] {
        let planned = policy.plan_for(&[port]).unwrap();
        let first = planned.port.rules[0].policy;
        assert_eq!(u32::from(first.profile), profile, "{port}");
        assert_eq!(planned.settings.filtered_addresses, is_filtered, "{port}");
    }
}

#[test]
fn a_port_is_found_by_its_first_known_name() {
    let text = "[defaults]\nflows_max = 7\n[[tenant]]\nname = \"a\"\nports = \"vm-a\"\n\
                [[tenant]]\nname = \"b\"\nports = \"vnet*\"\nweight = 4\nflows_max = 9\n\
                [[rule]]\nlaw = \"coupled\"\n";
    let policy = Policy::parse("t.toml", text).unwrap();
    let planned = policy.plan_for(&["vnet3", "vm-a"]).unwrap();
    assert_eq!((&*planned.matched, planned.port.flows_max), ("vnet3", 9));
    assert_eq!(planned.port.coupling.unwrap().weight, 4);
    let other = policy.plan_for(&["eth7", "vm-a"]).unwrap();
    assert_eq!((&*other.matched, other.port.flows_max), ("vm-a", 7));
    assert_ne!(other.port.tenant, planned.port.tenant);
    assert!(policy.plan_for(&["eth7"]).is_none());
    assert!(policy.plan_for(&[]).is_none());
}

#[test]
fn strict_port_has_strict_rules_unless_they_pass_or_observe() {
    let text = "[defaults]\nlaw = \"ecn\"\nstrict = true\n\
                [[tenant]]\nname = \"a\"\nports = \"v\"\n\
                [[tenant]]\nname = \"b\"\nports = \"w\"\nstrict = false\n\
                [[rule]]\nremote_port = 1\nlaw = \"pass\"\n\
                [[rule]]\nremote_port = 2\nparameters = { observe = true }\n\
                [[rule]]\nremote_port = 3\nparameters = { strict = true }\n\
                [[rule]]\nremote_port = 4\nlaw = \"delay\"\nparameters = { target = \"1ms\" }\n";
    let policy = Policy::parse("t.toml", text).unwrap();
    let strict = |port: &str| -> Vec<bool> {
        let rules = policy.plan_for(&[port]).unwrap().port.rules;
        let is_strict = |rule: &uc_core::rule::Rule| uc_core::is_strict(&rule.policy);
        rules.iter().map(is_strict).collect()
    };
    assert_eq!(strict("v"), [false, false, true, true, true]);
    assert_eq!(strict("w"), [false, false, true, false, false]);
}

#[test]
fn ports_are_split_as_their_tenant_or_the_defaults_say() {
    let text = "[defaults]\nsplit = true\n\
                [split]\ncongestion_control = \"bbr\"\ntcp_ports = [\"85-99\", 80, \"81-90\"]\n\
                [[tenant]]\nname = \"a\"\nports = \"v\"\n\
                [[tenant]]\nname = \"b\"\nports = \"w\"\nsplit = false\n\
                [[rule]]\nport = \"x\"\nlaw = \"ecn\"\n";
    let policy = Policy::parse("t.toml", text).unwrap();
    let is_split = |port| policy.plan_for(&[port]).unwrap().settings.split;
    assert_eq!(["v", "w", "x"].map(is_split), [true, false, true]);
    assert_eq!(policy.split.congestion_control.as_deref(), Some("bbr"));
    assert!(!policy.split.mptcp && !policy.split.inbound);
    let ports: Vec<String> = policy
        .split
        .tcp_ports
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ports, ["80-99"]);
}

#[test]
fn ports_with_duplicate_acks_lose_sack_and_timestamps_where_a_law_acts() {
    let text = "[defaults]\nlaw = \"ecn\"\ndupack = true\n\
                [[tenant]]\nname = \"a\"\nports = \"v\"\n\
                [[tenant]]\nname = \"b\"\nports = \"w\"\ndupack = false\n\
                [[tenant]]\nname = \"c\"\nports = \"x\"\n\
                dupack = { least = \"9ms\", short_tails = \"0s\" }\n\
                [[tenant]]\nname = \"d\"\nports = \"y\"\n\
                [[rule]]\ntenant = \"d\"\nlaw = \"pass\"\n\
                [[rule]]\nremote_port = 1\nlaw = \"pass\"\n\
                [[rule]]\nremote_port = 2\nparameters = { observe = true }\n\
                [[rule]]\nremote_port = 3\nparameters = { no_sack = true }\n";
    let policy = Policy::parse("t.toml", text).unwrap();
    let sent = |port: &str| {
        let dupack = policy.plan_for(&[port]).unwrap().dupack;
        dupack.map(|dupack| {
            (
                dupack.least.to_string(),
                dupack.short_tails.map(|time| time.0),
            )
        })
    };
    assert_eq!(sent("v"), Some(("5ms".to_owned(), None)));
    assert_eq!(sent("w"), None);
    assert_eq!(sent("x"), Some(("9ms".to_owned(), Some(0))));
    assert_eq!(sent("y"), None, "all of its flows pass");
    let removed = |port: &str| -> Vec<(bool, bool)> {
        let rules = policy.plan_for(&[port]).unwrap().port.rules;
        let has = |rule: &uc_core::rule::Rule, bit| u32::from(rule.policy.modes) & bit != 0;
        let both = |rule| {
            (
                has(rule, consts::WITHHELD_SACK),
                has(rule, consts::WITHHELD_TIMESTAMPS),
            )
        };
        rules.iter().map(both).collect()
    };
    let (none, all) = ((false, false), (true, true));
    assert_eq!(removed("v"), [none, none, all, all]);
    assert_eq!(removed("w"), [none, none, (true, false), none]);
}

#[test]
fn ports_hold_what_their_tenant_says_and_data_only_where_a_law_acts() {
    let text = "[defaults]\nlaw = \"ecn\"\nhold = { pace = true, buffer = true, rto_min = \"20ms\" }\n\
                [[tenant]]\nname = \"a\"\nports = \"v\"\n\
                [[tenant]]\nname = \"b\"\nports = \"w\"\nhold = false\n\
                [[tenant]]\nname = \"c\"\nports = \"x\"\nhold = { buffer = true, memory = \"9MB\" }\n\
                [[tenant]]\nname = \"d\"\nports = \"y\"\n\
                [[tenant]]\nname = \"e\"\nports = \"z\"\nhold = { pace = true }\n\
                [[rule]]\ntenant = \"d\"\nlaw = \"pass\"\n";
    let policy = Policy::parse("t.toml", text).unwrap();
    let held = |port: &str| {
        let hold = policy.plan_for(&[port]).unwrap().hold?;
        let rto_min = hold.rto_min.map(|time| time.to_string());
        Some((hold.pace, rto_min, hold.memory.to_string()))
    };
    let held_as = |pace, rto_min: Option<&str>, memory: &str| {
        Some((pace, rto_min.map(str::to_owned), memory.to_owned()))
    };
    assert_eq!(held("v"), held_as(true, Some("20ms"), "64MiB"));
    assert_eq!(held("w"), None);
    assert_eq!(held("x"), held_as(false, Some("10ms"), "9MB"));
    assert_eq!(
        held("y"),
        held_as(true, None, "64MiB"),
        "all of its flows pass"
    );
    assert_eq!(held("z"), held_as(true, None, "64MiB"));
}

#[test]
fn rules_inherit_the_defaults_that_their_law_uses() {
    let text = "[defaults]\nlaw = \"dctcp\"\nlegacy_only = false\nshare = 2\n\
                parameters = { beta = 0.5, guard = 3, target = \"9us\" }\n\
                [[tenant]]\nname = \"a\"\nports = \"v\"\n\
                [[rule]]\nremote_port = 1\nparameters = { gain = 2 }\n\
                [[rule]]\nremote_port = 2\nlaw = \"delay\"\nlegacy_only = true\nshare = 9\n\
                [[rule]]\nremote_port = 3\nlaw = \"ecn\"\nparameters = { observe = true }\n\
                [[rule]]\nremote_port = 4\nlaw = \"pass\"\n";
    let policy = Policy::parse("t.toml", text).unwrap();
    let rules = policy.plan_for(&["v"]).unwrap().port.rules;
    let numbers: Vec<_> = rules
        .iter()
        .map(|rule| {
            let policy = &rule.policy;
            let of_law = match policy.law.into() {
                consts::LAW_DCTCP => (policy.dctcp().beta_q7, policy.dctcp().gain_shift, 0),
                _ => (0, 0, policy.delay().target_us),
            };
            (of_law, policy.guard_segments, policy.guest_ecn, rule.share)
        })
        .collect();
    assert_eq!(
        numbers,
        [
            ((64, 2, 0), 3, 1, 2),
            ((0, 0, 9), 3, 0, 9),
            ((0, 0, 0), 0, 0, 2),
            ((0, 0, 0), 0, 0, 0),
            ((64, 4, 0), 3, 1, 2),
        ]
    );
}

#[test]
fn numbers_of_a_rules_coupling_start_and_ecn_reach_the_ports_plan() {
    let plan = |priorities: &str| {
        let text = format!(
            "[agent.watch]\nkey_file = \"/k\"\npeers = \"10.0.0.0/8\"\n\
             [[tenant]]\nname = \"a\"\nports = \"v\"\n\
             [[rule]]\nlaw = \"coupled\"\necn_syns = 5\nstart = \"watch\"\nwatch = {{ probes = 3 }}\n\
             coupling = {{ prefix4 = 20, prefix6 = 50, priority = 2, priorities = {{ {priorities} }} }}\n"
        );
        let policy = Policy::parse("t.toml", &text).unwrap();
        let planned = policy.plan_for(&["v"]).unwrap();
        assert_eq!(planned.start.unwrap().policy.probes, 3);
        assert_eq!(planned.port.rules[0].policy.ecn_syns, 5);
        planned.port.coupling.unwrap()
    };
    let coupling = plan("443 = 9, 80 = 4");
    let numbers = (coupling.prefix4, coupling.prefix6, coupling.priority);
    assert_eq!(numbers, (20, 50, 2));
    assert_eq!(coupling.priorities, [(80, 4), (443, 9)]);
    let most: Vec<String> = (1..=1024).map(|port| format!("{port} = 1")).collect();
    assert_eq!(plan(&most.join(", ")).priorities.len(), 1024);
}

/// Builds a rule's table from texts, for the strategies of `written`.
pub fn rule(selection: SelectionTable, law: Option<&str>) -> RuleTable {
    let law = law.map(|name| serde_json::from_value(name.into()).unwrap());
    RuleTable {
        selection,
        treatment: TreatmentTable {
            law,
            ..TreatmentTable::default()
        },
    }
}

/// Builds a list, or `None` without texts.
pub fn list<T>(texts: &[&str]) -> Option<List<T>>
where
    T: uc_policy::list::Element,
{
    let read = |text: &&str| T::read(&Scalar::Text((*text).to_owned())).unwrap();
    let elements: Vec<T> = texts.iter().map(read).collect();
    (!elements.is_empty()).then(|| List::of(&elements))
}

#[test]
fn shares_divide_the_ports_sum_or_the_tenants_and_conflict_with_coupled_rules() {
    let of = |sum: &str| {
        format!(
            "[[tenant]]\nname = \"a\"\nports = \"vnet*\"\nweight = 4\n{sum}\
             [[rule]]\ntenant = \"a\"\nremote_port = 5004\nlaw = \"ecn\"\nshare = 3\n\
             [[rule]]\ntenant = \"a\"\nlaw = \"ecn\"\nshare = 1\n"
        )
    };
    let plan = |text: &str| {
        let policy = Policy::parse("test.toml", text).unwrap();
        policy.plan_for(&["vnet3"]).unwrap().port
    };
    let by_port = plan(&of(""));
    let coupling = by_port.coupling.unwrap();
    assert!(coupling.is_sum());
    assert_eq!((coupling.group, coupling.weight), (PortCoupling::OWN, 4));
    let shares: Vec<u8> = by_port.rules.iter().map(|rule| rule.share).collect();
    assert_eq!(shares, [3, 1]);
    let by_tenant = plan(&of("sum = \"tenant\"\n")).coupling.unwrap();
    assert!(by_tenant.is_sum() && by_tenant.group < PortCoupling::OWN);
    let mixed = of("").replace("law = \"ecn\"\nshare = 1", "law = \"coupled\"");
    let told = Policy::parse("test.toml", &mixed).unwrap_err().to_string();
    assert!(
        told.contains("one has law coupled and the other `share`"),
        "{told}"
    );
}

#[test]
fn coupled_flows_of_two_tenants_share_only_by_an_explicit_group() {
    let policy = |coupling: &str| {
        let text = format!(
            "[[tenant]]\nname = \"a\"\nports = \"a*\"\n[[tenant]]\nname = \"b\"\nports = \"b*\"\n\
             [[rule]]\nport = [\"a*\", \"b*\", \"c*\"]\nlaw = \"coupled\"\n{coupling}\n"
        );
        Policy::parse("test.toml", &text).unwrap()
    };
    let groups = |policy: &Policy| {
        ["a1", "a2", "b1", "c1"].map(|port| {
            let planned = policy.plan_for(&[port]).unwrap();
            planned.port.coupling.unwrap().group
        })
    };
    for unsaid in ["", "coupling = { prefix4 = 0 }"] {
        let policy = policy(unsaid);
        let [a1, a2, b1, c1] = groups(&policy);
        assert_eq!(a1, a2);
        assert!(a1 != b1 && a1 != c1 && b1 != c1, "{a1} {b1} {c1}");
        assert_eq!(a1, PortCoupling::of_tenant(policy.tenants[0].number));
        // The group is neither one that an operator can write nor that of a port by itself.
        for group in [a1, b1, c1] {
            assert!(group > i32::MAX as u32 && group & !PortCoupling::OWN >= 1 << 30);
        }
    }
    assert_eq!(groups(&policy("coupling = { group = 0 }")), [0; 4]);
    assert_eq!(groups(&policy("coupling = { group = 7 }")), [7; 4]);
}
