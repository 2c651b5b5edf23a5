//! Invalid networks, guests and backends, and their refusals.

use crate::common::{SWEPT, refusal};

/// Each row: the text replaced, its replacement, and the refusal.
const SIMULATED: [(&str, &str, &str); 43] = [
    (
        "leaves = 3",
        "leaves = 1",
        "t.toml:8:12: network.topology: leaves is 1; give 2 to 1000",
    ),
    (
        "spines = 2",
        "spines = 0",
        "t.toml:8:12: network.topology: spines is 0; give 1 to 1000",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "{ parking-lot = { hops = 0 } }",
        "t.toml:8:12: network.topology: hops is 0; give 1 to 64",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "{ fat-tree = { ports = 5 } }",
        "t.toml:8:12: network.topology: ports is 5; half of a switch's ports lead up: give an even \
             number",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "{ fat-tree = { ports = 18 } }",
        "t.toml:8:12: network.topology: ports is 18; give 2 to 16",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "\"dumbbell\"",
        "t.toml:26:8: case.0.guests.0.from: a dumbbell leaves no choice of place; leave it out",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "{ parking-lot = { hops = 1 } }",
        "t.toml:22:1: case.0.guests.0.to: 1 is not behind 1; a parking-lot is crossed forwards",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "\"star\"\ntrunk_delay = \"1us\"",
        "t.toml:9:15: network.trunk_delay: a star has no links between switches; leave it out",
    ),
    (
        "from = 1",
        "from = 3",
        "t.toml:26:8: case.0.guests.0.from: 3 is beyond the leaf-spine; give 0 to 2",
    ),
    (
        "from = 1",
        "to = 3",
        "t.toml:26:6: case.0.guests.0.to: 3 is beyond the leaf-spine; give 0 to 2",
    ),
    (
        "from = 1",
        "host = \"h\"\nfrom = 1\n[[case.guests]]\nname = \"other\"\nstack = \"dc\"\nhost = \"h\"",
        "t.toml:28:1: case.0.guests.1.from: host `h` is at 1 already; a host is at one place",
    ),
    (
        "from = 1",
        "host = \"h\"\nto = 1\n[[case.guests]]\nname = \"other\"\nstack = \"dc\"\nhost = \"h\"",
        "t.toml:28:1: case.0.guests.1.to: host `h` sends to a receiver at 1 already; a host has one",
    ),
    (
        "start = \"100ms\"",
        "start = \"100ms\"\nstart_spread = \"900ms\"",
        "t.toml:31:9: case.0.guests.1.start: with start_spread it reaches the end of the run, \
             1s; start sooner",
    ),
    (
        "web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] }",
        "list = [[0, 1, \"1kB\", \"0s\"]]",
        "t.toml:32:24: case.0.guests.1.application.list: in a leaf-spine no host sends to any \
             other; take the topology `switch` or `fat-tree`",
    ),
    (
        "rate = 50,",
        "load = 1.5,",
        "t.toml:32:32: case.0.guests.1.application.web.load: 1.5 of the link; give above 0 to 1",
    ),
    (
        "rate = 50,",
        "rate = 50, load = 0.5,",
        "t.toml:32:23: case.0.guests.1.application.web: how often do transfers arrive? Give \
             either `rate` or `load`",
    ),
    (
        "rate = 50,",
        "rate = 0,",
        "t.toml:32:32: case.0.guests.1.application.web.rate: 0 arrivals a second; give more \
             than 0",
    ),
    (
        "[\"1kB\", 0.5], [\"1MB\", 1.0]",
        "[\"1kB\", 0.5], [\"1MB\", 0.9]",
        "t.toml:32:44: case.0.guests.1.application.web.sizes: the last cumulative probability \
             is 0.9; let the last size have 1.0",
    ),
    (
        "[\"1kB\", 0.5], [\"1MB\", 1.0]",
        "[\"1MB\", 0.5], [\"1kB\", 1.0]",
        "t.toml:32:59: case.0.guests.1.application.web.sizes.1: 1kB is below 1MB; let the \
             sizes rise",
    ),
    (
        "[\"1kB\", 0.5], [\"1MB\", 1.0]",
        "[\"1kB\", 0.5], [\"1MB\", 0.4]",
        "t.toml:32:59: case.0.guests.1.application.web.sizes.1: 0.4 is not a cumulative \
             probability after 0.5; give a number from 0.5 to 1",
    ),
    (
        "[\"1kB\", 0.5], [\"1MB\", 1.0]",
        "",
        "t.toml:32:44: case.0.guests.1.application.web.sizes: the last cumulative probability \
             is 0; let the last size have 1.0",
    ),
    (
        "sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]]",
        "sizes = \"0B\"",
        "t.toml:32:44: case.0.guests.1.application.web.sizes: is 0; give for example 10kB",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ transfer = { size = \"0B\" } }",
        "t.toml:32:37: case.0.guests.1.application.transfer.size: is 0; without payload there \
             is nothing to complete: give for example 10kB",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ request = { request = \"100B\", response = \"10kB\", rounds = 0 } }",
        "t.toml:32:75: case.0.guests.1.application.request.rounds: is 0; give at least 1",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ incast = { block = \"0B\" } }",
        "t.toml:32:36: case.0.guests.1.application.incast.block: is 0; without payload there is \
             nothing to complete: give for example 10kB",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ epochs = { size = \"10kB\", rounds = 6, every = \"100ms\", request = \"0B\" } }",
        "t.toml:32:82: case.0.guests.1.application.epochs.request: is 0; without payload there \
             is nothing to complete: give for example 10kB",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ epochs = { size = \"10kB\", rounds = 2, every = \"1us\", gap = \"1us\" } }",
        "t.toml:32:63: case.0.guests.1.application.epochs.every: is 1us, and the gaps of one \
             epoch take 1us; give more",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ epochs = { size = \"10kB\", rounds = 11, every = \"100ms\" } }",
        "t.toml:32:52: case.0.guests.1.application.epochs.rounds: the last of them reaches the \
             end of the run, 1s; give fewer",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ epochs = { size = \"10kB\" } }\nstart_spread = \"1ms\"",
        "t.toml:33:16: case.0.guests.1.start_spread: an epoch's transfers are as far apart as \
             its `gap` says; leave it out",
    ),
    (
        "{ web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] } }",
        "{ epochs = { size = \"10kB\", rounds = 20000000, every = \"1ns\" } }",
        "t.toml:32:52: case.0.guests.1.application.epochs.rounds: makes 20000000 transfers in \
             one run of the case, and 10000000 are the most; send them less often, or from fewer \
             flows",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\nqueue = { kind = \"droptail\", limit = \"100B\" }",
        "t.toml:21:38: case.0.queue.limit: holds not even one full packet; give at least 1514B",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\nqueue = { kind = \"droptail\", limit = \"0 packets\" }",
        "t.toml:21:38: case.0.queue.limit: holds not even one full packet; give at least 1 packets",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\nqueue = { kind = \"threshold\", limit = \"9 packets\", mark = \"3kB\" }",
        "t.toml:21:59: case.0.queue.mark: 3kB and the limit 9 packets have different units; give both in \
             bytes or in packets",
    ),
    (
        "initial_window = 10",
        "initial_window = 21",
        "t.toml:15:18: stack.dc.initial_window: 21 segments; give 1 to 20",
    ),
    (
        "delayed_ack = \"0s\"",
        "delayed_ack = \"500ms\"",
        "t.toml:16:15: stack.dc.delayed_ack: an ACK waits less than 500ms (RFC 5681 §4.2); give \
             for example 40ms",
    ),
    (
        "rto_min = \"10ms\"",
        "rto_min = \"10ms\"\nrto_max = \"1ms\"",
        "t.toml:18:11: stack.dc.rto_max: 1ms is below rto_min, which is 10ms",
    ),
    (
        "rto_min = \"10ms\"",
        "rto_granularity = \"0s\"",
        "t.toml:17:19: stack.dc.rto_granularity: is 0; give for example 1us",
    ),
    (
        "rto_min = \"10ms\"",
        "receive_buffer = \"1kB\"",
        "t.toml:17:18: stack.dc.receive_buffer: holds not even one full segment; give at least \
             1514B",
    ),
    (
        "arms = [\"sim\"]",
        "arms = []",
        "t.toml:3:8: arms: names no arm; leave it out, or name sim, live or vm",
    ),
    (
        "arms = [\"sim\"]\nduration = \"1s\"\nrepeat = 2\n\n[network]",
        "arms = [\"live\"]\nduration = \"1s\"\nrepeat = 2\n\n[network]\nprocessing = \"1us\"",
        "t.toml:8:14: network.processing: processing is for sim only; leave it out, or take live off \
             `arms`",
    ),
    (
        "queue = { kind",
        "offload = true\nqueue = { kind",
        "t.toml:11:11: network.offload: segmentation offload is for live and vm only; leave it \
             out, or take sim off `arms`",
    ),
    (
        "congestion_control = \"dctcp\"",
        "congestion_control = \"bbr\"",
        "t.toml:14:22: stack.dc.congestion_control: `bbr` (sim has reno, cubic, dctcp, \
             highspeed, vegas, illinois, reno_by_acks) is for live and vm only; leave it out, or take sim off `arms`",
    ),
    (
        "count = 4",
        "count = 4\nflows = 100000",
        "t.toml:22:1: case.0.guests: 400001 flows in one case; give at most 100000",
    ),
];

#[test]
fn an_invalid_network_application_or_backend_is_refused_at_the_place() {
    for (from, to, expected) in SIMULATED {
        assert_eq!(refusal(SWEPT, from, to), expected, "{from:?} -> {to:?}");
    }
}

/// A list of two transfers on a switch, in which each row breaks one thing.
#[test]
fn senseless_lists_are_refused_with_place_and_remedy() {
    let text = SWEPT.split("[[case]]").next().unwrap().replace(
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "{ switch = { hosts = 3 } }",
    );
    let text = format!(
        "{text}[[case]]\nname = \"a\"\n[[case.guests]]\nname = \"g\"\nstack = \"dc\"\ncount = 3\n\
         application = {{ list = [[0, 1, \"1kB\", \"2s\"], [1, 2, \"1B\", \"2500ms\"]] }}\n"
    );
    for (from, to, wanted) in [
        (
            "count = 3",
            "count = 2",
            "count: is 2; a list is for all hosts, with a flow each: give 3",
        ),
        (
            "count = 3",
            "count = 3\nflows = 2",
            "flows: is 2; a list is for all hosts, with a flow each: give 1",
        ),
        (
            "count = 3",
            "count = 3\npattern = \"random\"",
            "pattern: the list has the hosts and times of its transfers; leave it out",
        ),
        (
            "[1, 2,",
            "[1, 3,",
            "application.list.1: from host 1 to host 3; give two different ones of 0 to 2",
        ),
        (
            "[1, 2,",
            "[2, 2,",
            "application.list.1: from host 2 to host 2; give two different ones of 0 to 2",
        ),
        (
            "\"1B\"",
            "\"0B\"",
            "application.list.1: is of 0 bytes; give at least 1B",
        ),
        (
            "2500ms",
            "3s",
            "application.list: its last transfer begins 1s after time 0, and the run ends at 1s; \
             lengthen the run",
        ),
    ] {
        let found = refusal(&text, from, to);
        assert!(
            found.ends_with(&format!("case.0.guests.0.{wanted}")),
            "{found}"
        );
    }
    let read = uc_experiment::Experiment::from_str("t.toml", &text).expect("reads");
    read.validate().unwrap_or_else(|error| panic!("{error}"));
}
