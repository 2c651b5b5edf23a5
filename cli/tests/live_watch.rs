//! `uc watch` between real kernels: probes on the wire, handshakes that wait, windows that are set;
//! and no effect of anything that a stranger sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};

use uc_lab::netns::Namespace;
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::{build, complete_checksums, raw_socket, tcp_counter, wait_until};
use crate::common::capture::{ACK, Capture, SYN, Segment, segments, tshark};
use crate::common::frames::{frames, ip};
use crate::common::uc::{refusal, success};
use crate::common::watcher::Watcher;
use crate::common::{STACKS, experiment, guest, live, live_with, transfer};

const TOOLS: [&str; 2] = ["tcpdump", "tshark"];
const PORT: u16 = 5001;
const PROBE_PROTOCOL: u8 = 253;
/// A network without a bottleneck, and with a round trip of 4 ms.
const LONG: &str = "rate = \"100Mbit\"\ndelay = \"2ms\"\n\
     queue = { kind = \"droptail\", limit = \"1MB\" }";

/// Builds a network of one guest and a server behind the ports port0 and port1.
fn lab(network: &str) -> (Plan, Lab) {
    let guests = format!("receiver_law = \"pass\"\n{}", guest("legacy", "legacy", ""));
    let (plan, lab) = build(&experiment(1, network, &guests, STACKS));
    for namespace in [&lab.wiring.guests[0], &lab.wiring.servers[0]] {
        complete_checksums(namespace, "eth0");
    }
    (plan, lab)
}

fn listener(plan: &Plan, lab: &Lab) -> TcpListener {
    let address = SocketAddr::new(plan.servers[0].address, PORT);
    let listen = || TcpListener::bind(address).unwrap();
    lab.wiring.servers[0].enter(listen).unwrap()
}

fn connect(plan: &Plan, guest: &Namespace) -> TcpStream {
    let address = SocketAddr::new(plan.servers[0].address, PORT);
    guest
        .enter(|| TcpStream::connect(address).unwrap())
        .unwrap()
}

/// Opens one connection on which the guest sends a few bytes.
fn exchange(plan: &Plan, lab: &Lab, listener: &TcpListener) {
    transfer::exchange(listener, || connect(plan, &lab.wiring.guests[0]));
}

fn uc(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(arguments);
    command
}

fn is_probe(frame: &[u8]) -> bool {
    ip(frame).is_some_and(|(_, protocol, _)| protocol == PROBE_PROTOCOL)
}

/// Returns the time stamps of the packets that match the filter, in microseconds.
fn times_us(file: &Path, filter: &str) -> Vec<u64> {
    let mut command = tshark(file, filter);
    command.args(["-e", "frame.time_relative"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let seconds = text.lines().map(|line| line.parse::<f64>().unwrap());
    seconds.map(|at| (at * 1e6).round() as u64).collect()
}

fn first(segments: &[Segment], flags: u16) -> &Segment {
    let mut with = segments.iter().filter(|s| s.flags & (SYN | ACK) == flags);
    with.next().unwrap()
}

/// Returns the ECN bits of an IP frame.
fn ecn(frame: &[u8]) -> u8 {
    if frame[12] == 8 {
        frame[15] & 3
    } else {
        frame[15] >> 4 & 3
    }
}

/// Asserts ten probes, in the smallest frame that holds them, and ECN-capable.
fn assert_probes(family: &str, network: &Path) {
    let probes: Vec<_> = frames(network)
        .into_iter()
        .filter(|f| is_probe(f))
        .collect();
    assert_eq!(probes.len(), 10, "{family}: of the first connection only");
    let bytes = if family == "ipv4" { 60 } else { 80 };
    for frame in &probes {
        assert_eq!(
            (frame.len(), ecn(frame)),
            (bytes, 2),
            "{family}: {frame:02x?}"
        );
    }
}

/// Asserts that all probes precede the SYN, at uneven gaps.
fn assert_ahead(family: &str, network: &Path, syn: &Segment) {
    let protocol = if family == "ipv4" {
        "ip.proto == 253"
    } else {
        "ipv6.nxt == 253"
    };
    let at_us = times_us(network, protocol);
    assert!(
        at_us.iter().all(|&at| at < syn.at_us),
        "{family}: {at_us:?} {syn:?}"
    );
    let mut gaps: Vec<u64> = at_us.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    gaps.dedup();
    assert!(gaps.len() >= 5, "{family}: uneven: {at_us:?}");
}

fn probes_go_ahead(family: &str) {
    let (plan, lab) = lab(&format!("{LONG}\nfamily = \"{family}\""));
    let listener = listener(&plan, &lab);
    let hosts = &lab.wiring.hosts;
    let folder = tempfile::tempdir().unwrap();
    let captures = [
        Capture::start(hosts, "up0", folder.path()),
        Capture::start(&lab.wiring.servers[0], "eth0", folder.path()),
    ];
    let arguments = ["--data", "client", "--span", "20ms", "--idle", "3600s"];
    let watcher = Watcher::start(hosts, &["port0", "port1"], &arguments);
    exchange(&plan, &lab, &listener);
    exchange(&plan, &lab, &listener);
    let [network, server] = Capture::finish(captures);
    let seen = watcher.finish();
    println!("{family}: {}", seen.all());

    assert_probes(family, &network);
    assert_eq!(seen.count("probe"), 10, "{family}: {}", seen.all());
    assert_eq!(
        (seen.count("held"), seen.count("recent")),
        (1, 1),
        "{}",
        seen.all()
    );
    let of_server = frames(&server);
    assert!(
        !of_server.iter().any(|f| is_probe(f)),
        "{family}: the guest sees none"
    );

    let segments = segments(&network);
    assert_ahead(family, &network, first(&segments, SYN));
    // No probe was marked: ten segments, and the receiver's window is larger.
    let syn_ack = first(&segments, SYN | ACK);
    assert_eq!(u32::from(syn_ack.window) % 10, 0, "{family}: {syn_ack:?}");
    assert!(seen.count("window") >= 2, "{family}: {}", seen.all());
    for namespace in [&lab.wiring.guests[0], &lab.wiring.servers[0]] {
        assert_eq!(tcp_counter(namespace, "RetransSegs"), 0, "{family}");
        assert_eq!(tcp_counter(namespace, "InCsumErrors"), 0, "{family}");
    }
}

#[test]
fn live_probes_precede_a_syn_and_reach_only_the_other_host() {
    if !live_with(&TOOLS) {
        return;
    }
    for family in ["ipv4", "ipv6"] {
        in_peace(|| probes_go_ahead(family));
    }
}

#[test]
fn live_a_host_that_is_no_peer_gets_no_probe_and_its_handshakes_pass() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = lab(LONG);
    let listener = listener(&plan, &lab);
    let hosts = &lab.wiring.hosts;
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::start(hosts, "up0", folder.path());
    let ports = ["port0", "port1"];
    let watcher = Watcher::start_among(hosts, &ports, &["--peer", "10.78.0.0/16"], &[]);
    exchange(&plan, &lab, &listener);
    let seen = watcher.finish();
    let [network] = Capture::finish([capture]);
    assert!(!frames(&network).iter().any(|frame| is_probe(frame)));
    assert_eq!(seen.count("held"), 0, "{}", seen.all());
    assert_eq!(seen.count("window"), 0, "{}", seen.all());
    assert!(seen.count("not-a-peer") >= 2, "{}", seen.all());
}

/// A sending server: its SYN-ACK waits behind probes, and the client's host sets the windows of the
/// handshake's last ACK and of the request.
#[test]
fn live_a_sending_server_keeps_the_window_that_its_clients_host_sets() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        let (plan, lab) = lab(LONG);
        let listener = listener(&plan, &lab);
        let hosts = &lab.wiring.hosts;
        let folder = tempfile::tempdir().unwrap();
        let capture = Capture::start(hosts, "up0", folder.path());
        let arguments = ["--data", "server", "--span", "10ms", "--least", "3"];
        let watcher = Watcher::start(hosts, &["port0", "port1"], &arguments);
        let mut stream = connect(&plan, &lab.wiring.guests[0]);
        let (mut accepted, _) = listener.accept().unwrap();
        stream.write_all(b"page, please").unwrap();
        let mut request = [0; 12];
        accepted.read_exact(&mut request).unwrap();
        let page = vec![7; 200_000];
        accepted.write_all(&page).unwrap();
        drop(accepted);
        let mut found = Vec::new();
        stream.read_to_end(&mut found).unwrap();
        assert!(found == page);
        let seen = watcher.finish();
        let [network] = Capture::finish([capture]);
        println!("{}", seen.all());
        assert_eq!(seen.count("probe"), 10, "{}", seen.all());
        assert_eq!(seen.count("held"), 1, "{}", seen.all());
        let probe = frames(&network).into_iter().find(|frame| is_probe(frame));
        let source_port = u16::from_be_bytes(probe.unwrap()[34..36].try_into().unwrap());
        assert_eq!(source_port, PORT, "from the server's host");
        let segments = segments(&network);
        let of_guest: Vec<_> = segments
            .iter()
            .filter(|s| s.destination_port == PORT)
            .collect();
        let scale = 1u32 << guest_scale(&network);
        for segment in &of_guest[1..3] {
            let window_bytes = u32::from(segment.window) * scale;
            assert!(
                (9 * 1_448..=10 * 1_460).contains(&window_bytes),
                "{segment:?} × {scale}"
            );
        }
        for namespace in [&lab.wiring.guests[0], &lab.wiring.servers[0]] {
            assert_eq!(tcp_counter(namespace, "RetransSegs"), 0);
        }
    });
}

/// Returns the window scale that the guest offered.
fn guest_scale(file: &Path) -> u32 {
    let mut command = tshark(file, "tcp.flags == 2");
    let output = command
        .args(["-e", "tcp.options.wscale.shift"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().next().unwrap().parse().unwrap()
}

#[test]
fn live_a_port_is_watched_once_and_again_after_its_watch_has_ended() {
    if !live() {
        return;
    }
    let (_plan, lab) = lab(LONG);
    let hosts = &lab.wiring.hosts;
    let first = Watcher::start(hosts, &["port0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    success(uc(&["watch", "--make-key", key.to_str().unwrap()]));
    let mut second = hosts.command(env!("CARGO_BIN_EXE_uc"));
    second.args(["watch", "port0", "--peer", "10.0.0.0/8", "--key-file"]);
    second.arg(&key);
    refusal(second, &["watched already", "end that"]);
    first.kill();
    Watcher::start(hosts, &["port0"], &[]).finish();
    Watcher::start(hosts, &["port0"], &["--via", "clsact"]).finish();
}

#[test]
fn live_a_watch_ends_with_the_last_of_its_ports_and_reports_it() {
    if !live() {
        return;
    }
    let (_plan, lab) = lab(LONG);
    let hosts = &lab.wiring.hosts;
    let ip = |arguments: &str| {
        let mut command = hosts.command("ip");
        command.args(arguments.split(' '));
        success(command);
    };
    ip("link add gone0 type veth peer name gone1");
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    success(uc(&["watch", "--make-key", key.to_str().unwrap()]));
    let mut watch = hosts.command(env!("CARGO_BIN_EXE_uc"));
    watch.args(["watch", "gone0", "--peer", "10.0.0.0/8", "--key-file"]);
    let mut watch = watch
        .arg(&key)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(watch.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "gone0: watched\n");
    ip("link del gone0");
    wait_until("the watch's end", || watch.try_wait().unwrap().is_some());
    let output = watch.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in ["gone0 is gone", "no interface is left to watch"] {
        assert!(text.contains(part), "{text}");
    }
}

/// A guest knows the format, but not the key.
#[test]
fn live_probes_forged_by_a_guest_are_counted_and_change_nothing() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        let (plan, lab) = lab(LONG);
        let listener = listener(&plan, &lab);
        let hosts = &lab.wiring.hosts;
        let folder = tempfile::tempdir().unwrap();
        let capture = Capture::start(&lab.wiring.servers[0], "eth0", folder.path());
        let watcher = Watcher::start(hosts, &["port0", "port1"], &["--data", "client"]);
        let forger = raw_socket(&lab.wiring.guests[0], libc::AF_INET, libc::SOCK_RAW, 253);
        let mut forged = vec![
            0x9c, 0x40, 0x13, 0x89, b'u', b'c', 1, 0, 1, 2, 3, 4, 10, 0, 0, 0,
        ];
        forged.extend([0; 10]);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let slot = (now.unwrap().as_nanos() >> 30) as u16;
        forged[14..16].copy_from_slice(&slot.to_be_bytes());
        const FLOOD: u64 = 2_000;
        for number in 0..FLOOD {
            forged[8..16][..4].copy_from_slice(&(number as u32).to_be_bytes());
            send_to(&forger, &plan, &forged);
            send_to(&forger, &plan, &forged[..20]);
        }
        exchange(&plan, &lab, &listener);
        let seen = watcher.finish();
        let [server] = Capture::finish([capture]);
        println!("{}", seen.all());
        assert_eq!(seen.count("probe-forged"), FLOOD, "{}", seen.all());
        assert_eq!(seen.count("probe-truncated"), FLOOD, "{}", seen.all());
        assert_eq!(
            seen.count("probe") + seen.count("probe-ce"),
            10,
            "{}",
            seen.all()
        );
        assert_eq!(seen.count("table-full"), 0, "{}", seen.all());
        assert!(!frames(&server).iter().any(|frame| is_probe(frame)));
        assert_eq!(tcp_counter(&lab.wiring.guests[0], "RetransSegs"), 0);
    });
}

fn send_to(socket: &impl AsRawFd, plan: &Plan, bytes: &[u8]) {
    use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};
    let to = SockaddrStorage::from(SocketAddr::new(plan.servers[0].address, 0));
    loop {
        match sendto(socket.as_raw_fd(), bytes, &to, MsgFlags::empty()) {
            Ok(sent) => return assert_eq!(sent, bytes.len()),
            // This test itself may fill the queue.
            Err(nix::Error::ENOBUFS | nix::Error::EAGAIN) => std::thread::yield_now(),
            Err(errno) => panic!("{errno}"),
        }
    }
}
