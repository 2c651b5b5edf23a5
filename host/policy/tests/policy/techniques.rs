//! Refusals of what the host does beside the law: split connections, duplicate ACKs, held packets, tuned
//! containers.

use crate::faults::refusal;

/// Each row: what follows the tenant, from line 8 on, and the only refusal.
const SPLIT: [(&str, &str); 7] = [
    (
        "[split]\nmptcp = true",
        "8:1: split: changes nothing, because no port is split; add split = true",
    ),
    (
        "[defaults]\nsplit = true\n[split]\ncongestion_control = \"b b r\"",
        "11:22: split.congestion_control: `b b r` is not the name of a congestion control; give \
         one that `sysctl",
    ),
    (
        "[defaults]\nsplit = true\n[split]\ncongestion_control = \"of16_characters_\"",
        "11:22: split.congestion_control: `of16_characters_` is not the name of a congestion \
         control",
    ),
    (
        "[defaults]\nsplit = true\n[split]\ntcp_ports = []",
        "11:13: split.tcp_ports: is empty and matches nothing",
    ),
    (
        "[defaults]\nsplit = true\n[split]\ntcp_ports = [80, \"9-1\"]",
        "11:18: split.tcp_ports.1: `9-1` is empty: 9 is above 1",
    ),
    (
        "[defaults]\nsplit = true\n[split]\nmtcp = true",
        "11:1: split.mtcp: unknown key `mtcp`; did you mean `mptcp`?",
    ),
    ("[[rule]]\nsplit = true", "9:1: split: unknown key `split`"),
];

/// As [`SPLIT`], for duplicate ACKs of the host.
const DUPACK: [(&str, &str); 9] = [
    (
        "[defaults]\ndupack = true",
        "9:10: defaults.dupack: is for flows whose law acts, and each rule of these ports has law pass or",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ndupack = { least = \"9ms\" }\n\
         [[rule]]\ntenant = \"b\"\nlaw = \"ecn\"\nparameters = { observe = true }",
        "11:10: dupack: is for flows whose law acts, and each rule of these ports has law pass or",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = true\nsplit = true",
        "10:10: defaults.dupack: of split and dupack a port has one: a split connection ends at this host",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = true\n\
         [[tenant]]\nname = \"b\"\nports = \"y\"\nsplit = true",
        "14:9: split: of split and dupack a port has one: a split connection ends at this host",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = { least = \"0s\" }",
        "10:20: defaults.dupack.least: is 0ns; give 1ms to 10s",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = { short_tails = \"11s\" }",
        "10:26: defaults.dupack.short_tails: is 11s; give at most 10s",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = { lest = \"1s\" }",
        "10:12: defaults.dupack.lest: unknown key `lest`; did you mean `least`?",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = { least = 5 }",
        "10:20: defaults.dupack.least: `5` is not a duration: a number in a file needs a unit",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = \"yes\"",
        "10:10: defaults.dupack: ",
    ),
];

/// As [`SPLIT`], for packets that the host holds.
const HOLD: [(&str, &str); 12] = [
    (
        "[defaults]\nhold = { buffer = true }",
        "9:8: defaults.hold: keeps data of flows whose law acts, and each rule of these ports has law pass or",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\nhold = { pace = true, buffer = true }\n\
         [[rule]]\ntenant = \"b\"\nlaw = \"ecn\"\nparameters = { observe = true }",
        "11:8: hold: keeps data of flows whose law acts, and each rule of these ports has law pass or",
    ),
    (
        "[defaults]\nhold = true",
        "9:8: defaults.hold: holds nothing; give { pace = true }, { buffer = true } or both",
    ),
    (
        "[defaults]\nhold = { pace = false, memory = \"9MB\" }",
        "9:8: defaults.hold: holds nothing; give { pace = true }, { buffer = true } or both",
    ),
    (
        "[defaults]\nhold = { pace = true }\nsplit = true",
        "9:8: defaults.hold: of split and hold a port has one: a split connection ends at this host",
    ),
    (
        "[defaults]\nhold = { pace = true }\n\
         [[tenant]]\nname = \"b\"\nports = \"y\"\nsplit = true",
        "13:9: split: of split and hold a port has one: a split connection ends at this host",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\ndupack = true\n\
         [[tenant]]\nname = \"b\"\nports = \"y\"\nhold = { buffer = true }",
        "14:8: hold: of dupack and hold a port has one: both repair lost tails",
    ),
    (
        "[defaults]\nlaw = \"ecn\"\nhold = { buffer = true, rto_min = \"0s\" }",
        "10:35: defaults.hold.rto_min: is 0ns; give 1ms to 10s",
    ),
    (
        "[defaults]\nhold = { pace = true, rto_min = \"20ms\" }",
        "9:33: defaults.hold.rto_min: is the host's minimum RTO, and changes nothing without buffer = true",
    ),
    (
        "[defaults]\nhold = { pace = true, memory = \"9kB\" }",
        "9:32: defaults.hold.memory: is 9kB; give at least 1MB",
    ),
    (
        "[defaults]\nhold = { pace = true, bufer = true }",
        "9:23: defaults.hold.bufer: unknown key `bufer`; did you mean `buffer`?",
    ),
    ("[defaults]\nhold = \"pace\"", "9:8: defaults.hold: "),
];

/// As [`SPLIT`], for tuned containers.
const TUNE: [(&str, &str); 8] = [
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { rto_min = \"20ms\" }",
        "11:8: tune: missing key `cgroups`; add for example cgroups =",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { cgroups = \"b.slice\" }",
        "11:8: tune: sets nothing; add congestion_control, initial_window or rto_min",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { cgroups = \"/b\", initial_window = 9 }",
        "11:20: tune.cgroups: `/b` is not the path of a control group below the mount point",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { cgroups = [\"a\", \"a/../b\"], initial_window = 9 }",
        "11:26: tune.cgroups: `a/../b` is not the path of a control group below the mount point",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { cgroups = \"b\", initial_window = 1001 }",
        "11:42: tune.initial_window: is 1001; give 1 to 1000",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { cgroups = \"b\", rto_min = \"201ms\" }",
        "11:35: tune.rto_min: is 201ms; give 1ms to 200ms",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { cgroups = \"b\", congestion_control = \"b b\" }",
        "11:46: tune.congestion_control: `b b` is not the name of a congestion control",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"y\"\ntune = { cgroups = \"s/*\", initial_window = 9 }\n\
         [[tenant]]\nname = \"c\"\nports = \"z\"\ntune = { cgroups = \"s/*\", initial_window = 8 }",
        "15:20: tune.cgroups: `s/*` is of another tenant already, in line 11; a control group has one tenant",
    ),
];

#[test]
fn techniques_that_say_nothing_or_nonsense_are_refused() {
    let rows = SPLIT.into_iter().chain(DUPACK).chain(HOLD).chain(TUNE);
    for (text, expected) in rows {
        let refused = refusal(text);
        let expected = format!("t.toml:{expected}");
        assert!(refused.starts_with(&expected), "{refused}\nnot\n{expected}");
    }
}
