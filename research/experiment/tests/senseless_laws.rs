//! Invalid laws, parameters, patterns of a switch, and measures of both, and their refusals.

use crate::common::{GOOD, refusal};

/// Each row: the text replaced in the small experiment, its replacement, and the refusal.
const LAWS: [(&str, &str, &str); 19] = [
    (
        "count = 9",
        "parameters = { beta = 0.5 }",
        "t.toml:32:23: case.0.guests.0.parameters.beta: is a parameter of law dctcp; add law = \
         \"dctcp\", or leave it out",
    ),
    (
        "count = 9",
        "law = \"ecn\"\nparameters = { echo = \"classic\" }",
        "t.toml:33:23: case.0.guests.0.parameters.echo: is a parameter of law dctcp; add law = \
         \"dctcp\", or leave it out",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { target = \"150us\" }",
        "t.toml:33:25: case.0.guests.0.parameters.target: is a parameter of law delay; add law = \
         \"delay\", or leave it out",
    ),
    (
        "count = 9",
        "law = \"delay\"",
        "t.toml:30:1: case.0.guests.0.parameters.target: missing, and law delay has no default; \
         give the round-trip time to keep to: that of an idle path and the queueing delay to accept",
    ),
    (
        "count = 9",
        "law = \"delay\"\nparameters = { target = \"999ns\" }",
        "t.toml:33:25: case.0.guests.0.parameters.target: is below 1us; give that or more",
    ),
    (
        "count = 9",
        "law = \"pass\"\nparameters = { observe = true }",
        "t.toml:33:26: case.0.guests.0.parameters.observe: is for a law on the port; add for \
         example law = \"dctcp\", or leave it out",
    ),
    (
        "count = 9",
        "parameters = { guard = 1 }",
        "t.toml:32:24: case.0.guests.0.parameters.guard: is for a law on the port; add for example \
         law = \"dctcp\", or leave it out",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { beta = 1.01 }",
        "t.toml:33:23: case.0.guests.0.parameters.beta: is 1.01; give 0 to 1",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { alpha = nan }",
        "t.toml:33:24: case.0.guests.0.parameters.alpha: is NaN; give 0 to 1",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { gain = 11 }",
        "t.toml:33:23: case.0.guests.0.parameters.gain: is 11; give 1 to 10",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { min_window = 0 }",
        "t.toml:33:29: case.0.guests.0.parameters.min_window: is 0; give 1 to 255 segments",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { guard = 0 }",
        "t.toml:33:24: case.0.guests.0.parameters.guard: is 0; leave it out, or give 1 to 255 \
         segments",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { guard = 2, observe = true }",
        "t.toml:33:24: case.0.guests.0.parameters.guard: has no effect with `observe`, which \
         changes \
         no packet; remove this key or `observe`",
    ),
    (
        "count = 9",
        "law = \"dctcp\"\nparameters = { guest_ecn = \"translate\", observe = true }",
        "t.toml:33:28: case.0.guests.0.parameters.guest_ecn: has no effect with `observe`, which \
         changes no packet; remove this key or `observe`",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\nreceiver_law = \"delay\"",
        "t.toml:29:16: case.0.receiver_law: delay needs a target, and a receivers' port has no \
         parameters; give dctcp, ecn or pass, and delay to the guests",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\nreceiver = \"legcy\"",
        "t.toml:29:12: case.0.receiver: no [stack.legcy]; did you mean `legacy`?",
    ),
    (
        "count = 9",
        "stop = \"11s\"",
        "t.toml:32:8: case.0.guests.0.stop: 11s is after the end of the run, 10s; leave it out",
    ),
    (
        "count = 9",
        "start = \"4s\"\nstart_spread = \"1s\"\nstop = \"5s\"",
        "t.toml:34:8: case.0.guests.0.stop: 5s is not after every start; stop later",
    ),
    (
        "count = 9",
        "stop = \"5s\"\napplication = { transfer = { size = \"1MB\" } }",
        "t.toml:32:8: case.0.guests.0.stop: is for bulk flows, and this is transfer; leave it out",
    ),
];

#[test]
fn an_invalid_law_or_parameter_is_refused_at_the_place() {
    for (from, to, expected) in LAWS {
        assert_eq!(refusal(GOOD, from, to), expected, "{from:?} -> {to:?}");
    }
}

/// An experiment on a switch whose hosts all send.
const SWITCH: &str = r#"name = "t/switch"
title = "A test"
duration = "1s"
stack = { s = {} }
[network]
topology = { switch = { hosts = 5 } }
rate = "10Gbit"
delay = "10us"
queue = { kind = "droptail", limit = "300kB" }
[[case]]
name = "a"
[[case.guests]]
name = "g"
stack = "s"
count = 5
pattern = { stride = [1] }
"#;

const PATTERNS: [(&str, &str, &str); 19] = [
    (
        "hosts = 5",
        "hosts = 1",
        "t.toml:6:12: network.topology: hosts is 1; give 2 to 1000",
    ),
    (
        "delay = \"10us\"",
        "delay = \"10us\"\ntrunk_delay = \"1us\"",
        "t.toml:9:15: network.trunk_delay: a switch has no links between switches; leave it out",
    ),
    (
        "pattern = { stride = [1] }",
        "",
        "t.toml:12:1: case.0.guests.0.pattern: missing, and in a switch it says who sends to whom; \
         add for example pattern = { stride = [1] }",
    ),
    (
        "{ switch = { hosts = 5 } }",
        "\"dumbbell\"",
        "t.toml:16:11: case.0.guests.0.pattern: in a dumbbell it is given who sends to whom; leave \
         it out",
    ),
    (
        "count = 5",
        "count = 5\nhost = \"h\"",
        "t.toml:16:8: case.0.guests.0.host: the pattern says which host a guest is on; leave it out",
    ),
    (
        "count = 5",
        "count = 5\nto = 1",
        "t.toml:16:6: case.0.guests.0.to: a switch leaves no choice of place; leave it out",
    ),
    (
        "count = 5",
        "count = 4",
        "t.toml:15:9: case.0.guests.0.count: is 4; every host takes part in a stride: give 5",
    ),
    (
        "{ stride = [1] }",
        "{ fan-in = { to = 0 } }",
        "t.toml:15:9: case.0.guests.0.count: 5 guests, and 4 hosts without the receiving one; \
         give 4 or fewer",
    ),
    (
        "{ stride = [1] }",
        "{ fan-in = { to = 5 } }",
        "t.toml:16:29: case.0.guests.0.pattern.fan-in.to: 5 is beyond the 5 hosts; give 0 to 4",
    ),
    (
        "{ stride = [1] }",
        "{ stride = [] }",
        "t.toml:16:22: case.0.guests.0.pattern.stride: is an empty list; give for example [1]",
    ),
    (
        "{ stride = [1] }",
        "{ stride = [1, 5] }",
        "t.toml:16:22: case.0.guests.0.pattern.stride: 5 leads to no other of 5 hosts; give 1 to 4",
    ),
    (
        "{ stride = [1] }",
        "{ stride = [0] }",
        "t.toml:16:22: case.0.guests.0.pattern.stride: 0 leads to no other of 5 hosts; give 1 to 4",
    ),
    (
        "{ stride = [1] }",
        "{ stride = [1, 2] }",
        "t.toml:16:11: case.0.guests.0.pattern: bulk has one receiver, and here are several; give \
         application a transfer, or name one step",
    ),
    (
        "{ stride = [1] }",
        "{ shuffle = { parallel = 0 } }",
        "t.toml:16:36: case.0.guests.0.pattern.shuffle.parallel: is 0; give at least 1",
    ),
    (
        "{ stride = [1] }",
        "\"random\"",
        "t.toml:16:11: case.0.guests.0.pattern: bulk has one receiver, and here are several; give \
         application web or messages",
    ),
    (
        "count = 5",
        "count = 5\napplication = { messages = { sizes = \"0B\" } }",
        "t.toml:16:38: case.0.guests.0.application.messages.sizes: is 0; give for example 10kB",
    ),
    (
        "count = 5",
        "count = 5\napplication = { messages = { sizes = \"1kB\", every = \"0s\" } }",
        "t.toml:16:53: case.0.guests.0.application.messages.every: is 0; leave it out for one after \
         the other, or give for example 100ms",
    ),
    (
        "count = 5",
        "count = 5\napplication = { messages = { sizes = \"1kB\", every = \"1ns\" } }",
        "t.toml:16:53: case.0.guests.0.application.messages.every: makes 5000000005 messages in one \
         run of the case, and 10000000 are the most; send them less often, or from fewer flows",
    ),
    (
        "count = 5",
        "count = 5\nflows = 2000\napplication = { messages = { sizes = \"1kB\", every = \"1ms\" } }",
        "t.toml:17:53: case.0.guests.0.application.messages.every: makes 10010000 messages in one \
         run of the case, and 10000000 are the most; send them less often, or from fewer flows",
    ),
];

#[test]
fn a_pattern_that_no_switch_can_follow_is_refused_at_the_place() {
    for (from, to, expected) in PATTERNS {
        assert_eq!(refusal(SWITCH, from, to), expected, "{from:?} -> {to:?}");
    }
}

/// Each row: a replacement of the small experiment's measure, and the refusal.
const MEASURES: [(&str, &str); 12] = [
    (
        "{ kind = \"queue\", case = \"mixed\", during = [\"3s\", \"3s\"] }",
        "t.toml:41:54: expect.0.measure.during: 3s is not before 3s; write [from, to]",
    ),
    (
        "{ kind = \"jain\", case = \"mixed\", during = [\"3s\", \"11s\"] }",
        "t.toml:41:53: expect.0.measure.during: 11s is after the end of the run, 10s; end sooner",
    ),
    (
        "{ kind = \"utilisation\", case = \"mixed\", during = [\"3s\", \"3150ms\"] }",
        "t.toml:41:60: expect.0.measure.during: 150ms have fewer than two samples, one each 100ms; \
         take longer",
    ),
    (
        "{ kind = \"jain\", case = \"mixed\", of = [\"ecn\", \"none\"] }",
        "t.toml:41:49: expect.0.measure.of: no group `none` in case `mixed`; known here: ecn, legacy",
    ),
    (
        "{ kind = \"jain\", case = \"mixed\", of = [\"ecn\", \"ecn\"] }",
        "t.toml:41:49: expect.0.measure.of: names group `ecn` of case `mixed` twice; once is enough",
    ),
    (
        "{ kind = \"window_error\", case = \"mixed\", of = \"ecn\" }",
        "t.toml:41:57: expect.0.measure.of: group `ecn` has no shadow; give it a law, with \
         parameters = { observe = true } to leave it its own",
    ),
    (
        "{ kind = \"alpha\", case = \"mixed\", of = \"ecn\" }",
        "t.toml:41:50: expect.0.measure.of: group `ecn` has no port with an α; give it law = \
         \"dctcp\"",
    ),
    (
        "{ kind = \"alpha\", case = \"mixed\", of = \"ecn\", which = \"guest\" }",
        "t.toml:41:50: expect.0.measure.of: the guests of `ecn` have no α; give them a stack with \
         dctcp",
    ),
    (
        "{ kind = \"alpha\", case = \"mixed\", of = \"ecn\", which = \"exact\" }",
        "t.toml:41:50: expect.0.measure.of: group `ecn` has no port with an α; give it law = \
         \"dctcp\"",
    ),
    (
        "{ kind = \"alpha_error\", case = \"mixed\", of = \"ecn\" }",
        "t.toml:41:56: expect.0.measure.of: group `ecn` has no port with an α; give it law = \
         \"dctcp\"",
    ),
    (
        "{ kind = \"ratio\", of = { kind = \"fct\", case = \"mixed\", of = \"ecn\", sizes = [\"1kB\", \
         \"1kB\"] }, to = { kind = \"jain\", case = \"mixed\" } }",
        "t.toml:41:86: expect.0.measure.of.sizes: 1kB is not below 1kB; write [from, to]",
    ),
    (
        "{ kind = \"unfinished\", case = \"mixed\", of = \"ecn\", sizes = [\"1kB\", \"2kB\"] }",
        "t.toml:41:55: expect.0.measure.of: group `ecn` is bulk, which never completes; give it \
         another application",
    ),
];

#[test]
fn a_measure_of_something_missing_is_refused_at_the_place() {
    let share = "{ kind = \"share\", case = \"mixed\", of = \"legacy\", to = \"ecn\" }";
    for (measure, expected) in MEASURES {
        assert_eq!(refusal(GOOD, share, measure), expected, "{measure}");
    }
    let dctcp = GOOD.replacen("count = 9", "law = \"dctcp\"", 1);
    let against =
        "{ kind = \"alpha_error\", case = \"mixed\", of = \"ecn\", against = \"shadow\" }";
    assert_eq!(
        refusal(&dctcp, share, against),
        "t.toml:41:73: expect.0.measure.against: is the shadow itself; give exact or guest"
    );
}

#[test]
fn backends_refuse_the_applications_that_they_lack() {
    use uc_experiment::Arm;
    let read = |keys: &str| {
        let text = GOOD.replacen("count = 9", keys, 1);
        let experiment = uc_experiment::Experiment::from_str("t.toml", &text).expect("reads");
        experiment.validate().expect("makes sense");
        experiment.suits(Arm::Sim).expect("suits");
        experiment
    };
    read("stop = \"5s\"").suits(Arm::Live).expect("suits");
    for (application, on_live, words) in [
        (
            "{ transfer = { size = \"1MB\" } }",
            true,
            "application is for sim and live only",
        ),
        (
            "{ messages = { sizes = \"10kB\", every = \"1s\" } }",
            true,
            "application is for sim and live only",
        ),
        (
            "{ web = { rate = 5, sizes = \"10kB\" } }",
            true,
            "application is for sim and live only",
        ),
        (
            "{ request = { request = \"100B\", response = \"10kB\" } }",
            false,
            "the application request is for sim only; run it with --on sim",
        ),
    ] {
        let experiment = read(&format!("application = {application}"));
        assert_eq!(
            experiment.suits(Arm::Live).is_ok(),
            on_live,
            "{application}"
        );
        let told = experiment.suits(Arm::Vm).expect_err("no").to_string();
        let place = "t.toml:32:15: case.0.guests.0.application: ";
        assert!(told.starts_with(place) && told.contains(words), "{told}");
    }
}
