//! Small experiments that the tests of files share.

#![allow(dead_code)] // no test file uses all of it

use uc_experiment::Experiment;

/// Returns the refusal of `file` with the first `from` replaced by `to`.
pub fn refusal(file: &str, from: &str, to: &str) -> String {
    assert!(file.contains(from), "{from:?} is not in the file");
    let text = file.replacen(from, to, 1);
    let read = Experiment::from_str("t.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    read.validate().expect_err("makes no sense").to_string()
}

/// A small experiment in which each test breaks one thing.
pub const GOOD: &str = r#"name = "t/one"
title = "A test"
duration = "10s"
settle = "2s"
tail = "1s"

[network]
rate = "10Mbit"
delay = "250us"

[network.queue]
kind = "red"
min = "30kB"
max = "90kB"
limit = "1MB"
burst = 55
probability = 0.1
packet = "1500B"
ecn = true

[stack.ecn]
ecn = true

[stack.legacy]
sack = false

[[case]]
name = "mixed"

[[case.guests]]
name = "ecn"
count = 9
stack = "ecn"

[[case.guests]]
name = "legacy"
stack = "legacy"

[[expect]]
name = "share"
measure = { kind = "share", case = "mixed", of = "legacy", to = "ecn" }
within = [0.1, 0.5]
"#;

/// A swept experiment for the simulator in which each test breaks one thing.
pub const SWEPT: &str = r#"name = "t/swept"
title = "A test"
arms = ["sim"]
duration = "1s"
repeat = 2

[network]
topology = { leaf-spine = { leaves = 3, spines = 2 } }
rate = "10Gbit"
delay = "10us"
queue = { kind = "droptail", limit = "300kB" }

[stack.dc]
congestion_control = "dctcp"
initial_window = 10
delayed_ack = "0s"
rto_min = "10ms"

[[case]]
name = "mixed"

[[case.guests]]
name = "long"
count = 4
stack = "dc"
from = 1

[[case.guests]]
name = "short"
stack = "dc"
start = "100ms"
application = { web = { rate = 50, sizes = [["1kB", 0.5], ["1MB", 1.0]] } }

[[sweep]]
name = "long"
set = { "case.mixed.guests.long.count" = [1, 4, 8], "case.mixed.guests.short.count" = [8, 4, 1] }

[[sweep]]
name = "buffer"
labels = ["deep", "shallow"]
set = { "network.queue" = [{ kind = "droptail", limit = "300kB" }, { kind = "droptail", limit = "30kB" }] }

[[expect]]
name = "completion time"
measure = { kind = "fct", case = "mixed", of = "short", statistic = "p99" }
at = { long = ["1", "8"], buffer = "deep" }
at_most = 0.1

[[expect]]
name = "completion time over long flows"
measure = { kind = "fct", case = "mixed", of = "short" }
along = "long"
rises = true
on = "sim"
"#;

/// Two cases on two networks, of which one expectation needs both.
pub const TWO_CASES: &str = r#"
name = "t/two"
title = "t"
duration = "10s"
repeat = 2
stack = { s = {} }
network = { rate = "10Mbit", delay = "1ms", queue = { kind = "droptail", limit = "1MB" } }
[[case]]
name = "a"
guests = [{ name = "g", stack = "s" }]
[[case]]
name = "b"
guests = [{ name = "g", stack = "s" }]
[[sweep]]
name = "delay"
set = { "network.delay" = ["1ms", "2ms"] }
[[expect]]
name = "a over b"
measure = { kind = "ratio", of = { kind = "goodput", case = "a", of = "g" }, to = { kind = "goodput", case = "b", of = "g" } }
at_least = 0.1
[[expect]]
name = "round trips of b"
measure = { kind = "rtt", case = "b", of = "g" }
at_most = 1
"#;
