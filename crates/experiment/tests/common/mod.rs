//! A small experiment that the tests of files share.

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
