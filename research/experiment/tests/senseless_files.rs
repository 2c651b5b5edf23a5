//! Files that can be read but are invalid, and the refusals with place and reason.

use crate::common::{GOOD, refusal};

/// Each row: the text replaced, its replacement, and the refusal.
const SENSELESS: [(&str, &str, &str); 24] = [
    (
        "name = \"t/one\"",
        "name = \"a b\"",
        "t.toml:1:8: name: `a b` is not a valid name; use letters, digits, `-` and `_`",
    ),
    (
        "settle = \"2s\"",
        "settle = \"9s\"",
        "t.toml:3:12: duration: nothing is left to measure: settle 9s and tail 1s take all of \
             10s",
    ),
    (
        "tail = \"1s\"",
        "tail = \"1s\"\nsample = \"4s\"",
        "t.toml:6:10: sample: 4s leaves fewer than two samples in the measured part; make it \
             smaller",
    ),
    (
        "tail = \"1s\"",
        "tail = \"1s\"\nrepeat = 0",
        "t.toml:6:10: repeat: is 0; run it at least once",
    ),
    (
        "tail = \"1s\"",
        "tail = \"1s\"\nrepeat = 100001",
        "t.toml:6:10: repeat: is 100001; give at most 100000",
    ),
    (
        "tail = \"1s\"",
        "tail = \"1s\"\nrepeat_sim = 4294967295",
        "t.toml:6:14: repeat_sim: is 4294967295; give at most 100000",
    ),
    (
        "tail = \"1s\"",
        "tail = \"1s\"\nlate_max = 0",
        "t.toml:6:12: late_max: is 0; give a positive fraction of the round-trip time, for example \
             0.2",
    ),
    (
        "\"10Mbit\"",
        "\"0bit\"",
        "t.toml:8:8: network.rate: is 0; nothing would ever arrive: give for example 10Mbit",
    ),
    (
        "rate = \"10Mbit\"",
        "rate = \"10Mbit\"\nmtu = \"1kB\"",
        "t.toml:9:7: network.mtu: is 1kB; give 1280B to 9kB",
    ),
    (
        "max = \"90kB\"",
        "max = \"30kB\"",
        "t.toml:14:7: network.queue.max: 30kB is not above min 30kB",
    ),
    (
        "probability = 0.1",
        "probability = 1.5",
        "t.toml:17:15: network.queue.probability: 1.5 is not a probability; give a number from 0 \
         to 1",
    ),
    (
        "burst = 55",
        "burst = 10",
        "t.toml:16:9: network.queue.burst: 10 packets are less than min/packet; give at least \
             20",
    ),
    (
        "sack = false",
        "wscale = 15",
        "t.toml:25:10: stack.legacy.wscale: 15 is above 14, the largest (RFC 7323 §2.3)",
    ),
    (
        "sack = false",
        "congestion_control = \"New Reno\"",
        "t.toml:25:22: stack.legacy.congestion_control: `New Reno` is not a name that a kernel \
         accepts; give \
             for example reno",
    ),
    (
        "count = 9",
        "count = 0",
        "t.toml:32:9: case.0.guests.0.count: is 0; give at least 1",
    ),
    (
        "count = 9",
        "count = 10000",
        "t.toml:30:1: case.0.guests: 10001 guests in one case; give at most 10000",
    ),
    (
        "stack = \"legacy\"",
        "stack = \"legcy\"",
        "t.toml:37:9: case.0.guests.1.stack: no [stack.legcy]; did you mean `legacy`?",
    ),
    (
        "name = \"legacy\"\nstack",
        "name = \"ecn\"\nstack",
        "t.toml:36:8: case.0.guests.1.name: a second group `ecn` in case `mixed`",
    ),
    (
        "[[expect]]",
        "[[case]]\nname = \"mixed\"\n[[case.guests]]\nname = \"x\"\nstack = \
             \"ecn\"\n[[expect]]",
        "t.toml:40:8: case.1.name: a second case `mixed`; give every case a name of its own",
    ),
    (
        "case = \"mixed\"",
        "case = \"mixt\"",
        "t.toml:41:36: expect.0.measure.case: no case `mixt`; did you mean `mixed`?",
    ),
    (
        "to = \"ecn\"",
        "to = \"all\"",
        "t.toml:41:65: expect.0.measure.to: no group `all` in case `mixed`; known here: ecn, \
             legacy",
    ),
    (
        "within = [0.1, 0.5]",
        "within = [0.5, 0.1]",
        "t.toml:42:10: expect.0.within: 0.5 is above 0.1; write [low, high]",
    ),
    (
        "within = [0.1, 0.5]",
        "",
        "t.toml:39:1: expect.0: expects nothing; add within = [low, high], at_most or at_least",
    ),
    (
        "within = [0.1, 0.5]",
        "within = [0.1, 0.5]\nat_most = 1",
        "t.toml:42:10: expect.0.within: is given with at_most or at_least; keep one of them",
    ),
];

#[test]
fn an_invalid_file_is_refused_at_the_place() {
    for (from, to, expected) in SENSELESS {
        assert_eq!(refusal(GOOD, from, to), expected, "{from:?} -> {to:?}");
    }
}
