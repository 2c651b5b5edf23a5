//! Law `coupled`: guests that change nothing share one window through their ports' shadows, at a
//! bottleneck of 10 Mb/s and a round trip of 100 ms (ctrlTCP's figure 3).

mod common;

use common::{again, experiment, group, measure, run};
use uc_experiment::RunRecord;

const TRUNK: &str = r#"
name = "sim/coupling"
title = "coupling"
duration = "80s"
settle = "20s"
sample = "50ms"
[network]
topology = "dumbbell"
rate = "10Mbit"
access_rate = "100Mbit"
delay = "5ms"
trunk_delay = "40ms"
queue = { kind = "droptail", limit = "125kB" }
[stack.reno]
congestion_control = "reno"
[stack.cubic]
congestion_control = "cubic"
[stack.old]
congestion_control = "reno"
sack = false
[stack.walking]
congestion_control = "reno"
reduction = "proportional"
[stack.scaled]
congestion_control = "reno"
wscale = 10
"#;

const JAIN: &str = "kind = \"jain\"\ncase = \"only\"\nby = \"guest\"";
const USED: &str = "kind = \"utilisation\"\ncase = \"only\"";

fn coupled(stack: &str, rest: &str) -> String {
    format!("stack = \"{stack}\"\nlaw = \"coupled\"\ncoupling = {{ group = \"trunk\" }}\n{rest}")
}

fn at_test(record: &RunRecord) -> String {
    again(record, "coupling_host")
}

#[test]
fn a_guest_with_four_flows_has_as_much_as_one_with_one_if_their_ports_are_coupled() {
    let stacks = ["reno", "cubic", "old", "walking", "scaled"];
    for (number, stack) in stacks.into_iter().enumerate() {
        for profile in ["rfc", "linux"] {
            let profile = format!("profile = \"{profile}\"");
            let groups = [
                group("one", &coupled(stack, &profile)),
                group("four", &coupled(stack, &format!("flows = 4\n{profile}"))),
            ];
            let experiment = experiment(TRUNK, &groups);
            let record = run(&experiment, number as u64);
            let jain = measure(&experiment, &record, JAIN);
            let used = measure(&experiment, &record, USED);
            let again = at_test(&record);
            println!("{stack} {profile}: Jain {jain:.4}, utilisation {used:.4}");
            assert!(jain >= 0.99, "{stack}, {profile}: Jain {jain}; {again}");
            assert!(
                used >= 0.95,
                "{stack}, {profile}: utilisation {used}; {again}"
            );
        }
    }
}
