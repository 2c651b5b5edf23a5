//! `uc hold`: packets of held connections go through a process, and connections go on without it.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use uc_live::in_peace;
use uc_net::random::Stream;

use crate::common::bench::tcp_counter;
use crate::common::ends::{listen, open, receive, send};
use crate::common::held::{Held, count};
use crate::common::kills::{Kills, seed};
use crate::common::routed::{Routed, ip};
use crate::common::sandbox::Sandbox;
use crate::common::transfer::{End, Transfer, pace};
use crate::common::uc::{refusal, success};
use crate::common::{by_hand, live_with};

/// Programs that the tests run.
const TOOLS: [&str; 2] = ["ip", "nft"];
const ATTACH: [&str; 4] = ["attach", "port0", "--law", "ecn"];
const BOTH: [&str; 2] = ["--pace", "--buffer"];
/// Bytes of a transfer in one direction.
const BYTES: u64 = 20_000_000;
/// Data of a full packet, at most.
const MSS_BYTES: u64 = 1460;
/// Kills of the process, unless `UC_KILLS` is given, and its stops.
const TIMES: u64 = 10;
/// Time within which a moment is drawn, for a kill or a stop.
const MOMENTS: Duration = Duration::from_millis(50);
/// Rate of a transfer in bytes per second: at it the ring takes what arrives until the process runs.
const RATE: u32 = 40_000_000;

fn can_run() -> bool {
    live_with(&TOOLS) && live_with(&by_hand::TOOLS)
}

/// Builds the network, with a law on the port.
fn network() -> (Routed, Sandbox) {
    let (net, sandbox) = (Routed::build(&[None], 1), Sandbox::new());
    success(sandbox.uc(&net.host, &ATTACH));
    (net, sandbox)
}

fn counters(net: &Routed, name: &str) -> u64 {
    tcp_counter(&net.guest, name) + tcp_counter(&net.server, name)
}

#[test]
fn live_transfers_both_ways_are_whole_and_in_order_as_super_segments() {
    if can_run() {
        in_peace(transfer_both_ways);
    }
}

fn transfer_both_ways() {
    let (net, sandbox) = network();
    let held = Held::start(&net, &sandbox, &BOTH);
    let names = ["RetransSegs", "TCPDSACKRecvSegs", "TCPOFOQueue"];
    let before = names.map(|name| counters(&net, name));
    for is_ipv6 in [false, true] {
        let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
        for is_sent_by_guest in [true, false] {
            let (guest, server) = open(&net.guest, &listener);
            let (from, to) = match is_sent_by_guest {
                true => (&guest, &server),
                false => (&server, &guest),
            };
            pace(from, RATE);
            thread::scope(|scope| {
                scope.spawn(|| send(from, BYTES));
                assert_eq!(receive(to), BYTES);
            });
        }
    }
    let after = names.map(|name| counters(&net, name));
    let [retransmitted, doubled, out_of_order] = [0, 1, 2].map(|at| after[at] - before[at]);
    println!(
        "{retransmitted} segments retransmitted, {doubled} arrived twice, {out_of_order} out of order"
    );
    // Where the machine pauses, segments are retransmitted that arrive twice. Nothing is lost.
    assert!(retransmitted < doubled + 10, "{retransmitted}");
    assert!(out_of_order < 10, "{out_of_order}");
    assert_eq!(counters(&net, "InCsumErrors"), 0);
    let numbers = held.end();
    let packets = count(&numbers, "packets");
    // The data alone would be 4 * BYTES / MSS_BYTES without offloads; ACKs are packets, too.
    assert!(packets > 4 * BYTES / 65_536, "{packets}");
    assert!(packets < 2 * BYTES / MSS_BYTES, "{packets}");
    assert_eq!(count(&numbers, "unsent"), 0);
    assert_eq!(count(&numbers, "packets_unheld"), 0);
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

/// Starts a transfer of each direction, of this number.
fn transfers(net: &Routed, number: u16) -> [Transfer; 2] {
    let is_ipv6 = number % 2 == 1;
    let guest = |port| End {
        namespace: &net.guest,
        address: Routed::guest(is_ipv6, port),
    };
    let server = |port| End {
        namespace: &net.server,
        address: Routed::server(0, is_ipv6, port),
    };
    [
        Transfer::start_paced(guest(40_000 + number), server(5000 + number), RATE),
        Transfer::start_paced(server(41_000 + number), guest(6000 + number), RATE),
    ]
}

/// Waits until each transfer has made progress.
fn go_on(transfers: &[Transfer; 2]) {
    let before = transfers.each_ref().map(Transfer::delivered_bytes);
    for (transfer, before) in transfers.iter().zip(before) {
        transfer.reach(before + 200_000);
    }
}

fn finish(transfers: [Transfer; 2]) {
    transfers.iter().for_each(Transfer::stop);
    for transfer in transfers {
        // Each byte is checked.
        transfer.end();
    }
}

#[test]
fn live_transfers_go_on_when_the_process_is_killed_and_nothing_is_left() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = network();
    let pins = sandbox.pins();
    let mut kills = Kills::of(TIMES);
    while let Some(kill) = kills.another() {
        let held = Held::start(&net, &sandbox, &BOTH);
        let both = transfers(&net, kill.number as u16);
        go_on(&both);
        kills.sleep(&kill, MOMENTS);
        held.kill();
        go_on(&both);
        finish(both);
    }
    assert_eq!(sandbox.pins(), pins);
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

#[test]
fn live_packets_pass_while_the_process_is_stopped_and_are_held_when_it_continues() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = network();
    let held = Held::start(&net, &sandbox, &BOTH);
    let both = transfers(&net, 0);
    let seed = seed();
    println!("UC_SEED={seed}");
    let mut random = Stream::new(seed, "stops");
    for _ in 0..TIMES {
        go_on(&both);
        thread::sleep(Duration::from_micros(
            random.below(MOMENTS.as_micros() as u64),
        ));
        held.signal(Signal::SIGSTOP);
        // Longer than a heartbeat is valid.
        thread::sleep(Duration::from_millis(80));
        go_on(&both);
        held.signal(Signal::SIGCONT);
    }
    go_on(&both);
    finish(both);
    let numbers = held.end();
    assert!(count(&numbers, "stalls") >= TIMES, "{numbers}");
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

#[test]
fn live_ports_that_cannot_be_held_are_refused_in_words() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = (Routed::build(&[None], 1), Sandbox::new());
    let refused = |options: &[&str], words: &[&str]| {
        let mut all = vec!["hold"];
        all.extend(options);
        refusal(sandbox.uc(&net.host, &all), words)
    };
    refused(&["none0", "--pace"], &["no interface 'none0'"]);
    refused(
        &["port0", "--buffer"],
        &["port0", "no law that answers the losses", "uc attach port0"],
    );
    refusal(
        sandbox.uc_as_nobody(&net.host, &["hold", "port0", "--pace"]),
        &["needs root"],
    );
    let split = net.split(&[]);
    refused(
        &["port0", "--pace"],
        &["port0", "`uc split` (process", "end one of the two"],
    );
    split.end();

    success(sandbox.uc(&net.host, &ATTACH));
    let held = Held::start(&net, &sandbox, &BOTH);
    refused(&["port0", "--pace"], &["port0", "another `uc hold` runs"]);
    held.end();
    success(sandbox.uc(&net.host, &["detach", "port0", "--now"]));
    let mut by_clsact = ATTACH.to_vec();
    by_clsact.extend(["--via", "clsact"]);
    success(sandbox.uc(&net.host, &by_clsact));
    refused(
        &["port0", "--pace"],
        &["port0", "of clsact", "runs behind", "would not see"],
    );
    success(sandbox.uc(&net.host, &["detach", "port0", "--now"]));
    let held = Held::start(&net, &sandbox, &["--pace"]);
    success(sandbox.uc(&net.host, &by_clsact));
    assert_eq!(
        held.status(),
        Some(2),
        "what is put behind ends the command"
    );
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

#[test]
fn live_a_held_port_keeps_its_order_of_programs_and_ends_when_it_is_gone() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = (Routed::build(&[None], 1), Sandbox::new());
    let held = Held::start(&net, &sandbox, &["--pace"]);
    // Programs of the port that are attached later run between those of the hold.
    for order in ["first", "after"] {
        let mut attach = ATTACH.to_vec();
        if order == "after" {
            attach.extend(["--order", "after"]);
        }
        success(sandbox.uc(&net.host, &attach));
        let listener = listen(&net.server, Routed::server(0, false, 80));
        let (guest, server) = open(&net.guest, &listener);
        thread::scope(|scope| {
            scope.spawn(|| send(&guest, BYTES / 10));
            assert_eq!(receive(&server), BYTES / 10);
        });
        let flows = success(sandbox.uc(&net.host, &["flows", "--json"]));
        let flows: serde_json::Value = serde_json::from_str(&flows).unwrap();
        let translated = by_hand::packets(&flows, "translated");
        println!("{order}: {translated} packets translated");
        assert!(translated > 100, "{order}: {translated}");
        success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
    }
    ip(&net.host, "link delete port0");
    assert_eq!(held.status(), Some(2));
}

/// Returns how many bytes each class of port0's queue discipline has sent.
fn sent_by_class(net: &Routed) -> Vec<u64> {
    let mut tc = net.host.command("tc");
    tc.args(["-s", "class", "show", "dev", "port0"]);
    let text = success(tc);
    let lines = text.lines().map(str::trim);
    let bytes = lines.filter_map(|line| line.strip_prefix("Sent ")?.split(' ').next());
    bytes.map(|bytes| bytes.parse().unwrap()).collect()
}

#[test]
fn live_held_packets_keep_their_mark_and_priority() {
    if !can_run() || !live_with(&["tc"]) {
        return;
    }
    let (net, sandbox) = network();
    let run = |name: &str, arguments: &str| {
        let mut command = net.host.command(name);
        command.args(arguments.split(' '));
        success(command);
    };
    // A mark of 7 leads into the first class, priority 1:3 into the third, all else into the second.
    run("tc", "qdisc add dev port0 root handle 1: htb default 2");
    for class in 1..=3 {
        let class = format!("class add dev port0 parent 1: classid 1:{class} htb rate 10gbit");
        run("tc", &format!("{class} quantum 60000"));
    }
    let mut filter = net.host.command("tc");
    filter.args("filter add dev port0 parent 1: protocol all bpf bytecode".split(' '));
    // Classic BPF: load the mark; if it is 7, return -1, which takes the filter's class, else 0.
    filter.arg("4,32 0 0 4294963220,21 0 1 7,6 0 0 4294967295,6 0 0 0");
    filter.args(["flowid", "1:1"]);
    success(filter);
    run(
        "nft",
        "add table inet marks; add chain inet marks forward { type filter hook forward priority 0 ; }; \
         add rule inet marks forward oifname port0 meta nfproto ipv4 meta mark set 7; \
         add rule inet marks forward oifname port0 meta nfproto ipv6 meta priority set 1:3",
    );
    let held = Held::start(&net, &sandbox, &BOTH);
    for (is_ipv6, class) in [(false, 0), (true, 2)] {
        let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
        let (guest, server) = open(&net.guest, &listener);
        let before = sent_by_class(&net);
        thread::scope(|scope| {
            scope.spawn(|| send(&server, BYTES / 10));
            assert_eq!(receive(&guest), BYTES / 10);
        });
        let after = sent_by_class(&net);
        let sent: Vec<u64> = after
            .iter()
            .zip(&before)
            .map(|(after, before)| after - before)
            .collect();
        println!("bytes of each class: {sent:?}");
        assert!(sent[class] > BYTES / 10, "{sent:?}");
        assert!(sent.iter().sum::<u64>() - sent[class] < 10_000, "{sent:?}");
    }
    let numbers = held.end();
    assert!(count(&numbers, "packets") > 0, "{numbers}");
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}
