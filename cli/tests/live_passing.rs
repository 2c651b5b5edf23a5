//! Packets that must not be translated leave a translated port unmodified, byte for byte, and are
//! counted under their reason.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use uc_core::Reason;
use uc_lab::netns::Namespace;
use uc_lab::{Lab, Plan};

use crate::common::bench::{Translation, build, complete_checksums, reason};
use crate::common::capture::Capture;
use crate::common::frames::{frames, ip, occurrences};
use crate::common::transfer::{End, Transfer};
use crate::common::{AMPLE, STACKS, experiment, guest, live, live_with};

const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const IPV6_FRAGMENT: u8 = 44;
/// DSCP EF with each of the four ECN codepoints, which a sender of UDP sets itself.
const TRAFFIC_CLASSES: [i32; 4] = [0xb8, 0xb9, 0xba, 0xbb];
const SIZES: [usize; 4] = [0, 1, 1400, 4000];

fn datagram_socket(namespace: &Namespace, address: SocketAddr) -> UdpSocket {
    let socket = namespace
        .enter(|| UdpSocket::bind(address).unwrap())
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    socket
}

fn set_traffic_class(socket: &UdpSocket, class: i32) {
    let (level, name) = match socket.local_addr().unwrap() {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer is to a live integer of the length given.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const class).cast(),
            length,
        )
    };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// Exchanges datagrams of every size and traffic class with the server, which echoes them.
fn exchange_datagrams(plan: &Plan, lab: &Lab) -> usize {
    let guest = SocketAddr::new(plan.guests[0].address, 7000);
    let server = SocketAddr::new(plan.servers[0].address, 7001);
    let near = datagram_socket(&lab.wiring.guests[0], guest);
    let far = datagram_socket(&lab.wiring.servers[0], server);
    let mut buffer = [0; 8192];
    for class in TRAFFIC_CLASSES {
        set_traffic_class(&near, class);
        set_traffic_class(&far, class);
        for size in SIZES {
            let sent: Vec<u8> = (0..size)
                .map(|at| (at * 31 + class as usize) as u8)
                .collect();
            near.send_to(&sent, server).unwrap();
            let (length, from) = far.recv_from(&mut buffer).unwrap();
            assert_eq!(
                (&buffer[..length], from),
                (sent.as_slice(), guest),
                "{size} bytes"
            );
            far.send_to(&sent, guest).unwrap();
            let (length, from) = near.recv_from(&mut buffer).unwrap();
            assert_eq!(
                (&buffer[..length], from),
                (sent.as_slice(), server),
                "{size} bytes"
            );
        }
    }
    2 * TRAFFIC_CLASSES.len() * SIZES.len()
}

/// Exchanges echo requests, whose content `ping` compares itself.
fn ping(plan: &Plan, lab: &Lab) -> usize {
    for class in TRAFFIC_CLASSES {
        for size in SIZES {
            let mut command = lab.wiring.guests[0].command("ping");
            command.args(["-c", "1", "-W", "5", "-p", "a5", "-Q", &class.to_string()]);
            command.args([
                "-s",
                &size.to_string(),
                &plan.servers[0].address.to_string(),
            ]);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                output.status.success() && !text.contains("wrong data"),
                "{size}: {text}"
            );
        }
    }
    2 * TRAFFIC_CLASSES.len() * SIZES.len()
}

fn other_protocols_pass(family: &str) {
    let text = guest("virtual", "legacy", "law = \"ecn\"");
    let network = format!("{AMPLE}\nfamily = \"{family}\"");
    let (plan, lab) = build(&experiment(1, &network, &text, STACKS));
    let translation = Translation::attach(&plan, &lab.wiring.hosts, 64);
    complete_checksums(&lab.wiring.servers[0], "eth0");
    complete_checksums(&lab.wiring.guests[0], "eth0");
    let folder = tempfile::tempdir().unwrap();
    let guest_side = Capture::start(&lab.wiring.hosts, &plan.guests[0].port, folder.path());
    let network_side = Capture::start(&lab.wiring.hosts, "up0", folder.path());
    let exchanged = exchange_datagrams(&plan, &lab) + ping(&plan, &lab);
    let (not_tcp, fragments) = (
        translation.count(Reason::NOT_TCP),
        translation.count(reason("fragment")),
    );
    println!("{family}: {exchanged} datagrams: not_tcp {not_tcp}, fragment {fragments}");

    let of = |file: &std::path::Path| {
        let passed = |frame: &Vec<u8>| {
            ip(frame).is_some_and(|(_, protocol, _)| {
                [UDP, ICMP, ICMPV6, IPV6_FRAGMENT].contains(&protocol)
            })
        };
        occurrences(frames(file).into_iter().filter(passed))
    };
    let captures = [guest_side, network_side];
    let [guest_side, network_side] = Capture::finish(captures).map(|file| of(&file));
    assert!(
        guest_side == network_side,
        "{family}: a frame was changed, lost or doubled"
    );
    let packets: usize = guest_side.values().sum();
    // A payload of 4,000 bytes takes three fragments, all others one packet.
    assert_eq!(
        packets,
        exchanged / SIZES.len() * (SIZES.len() + 2),
        "{family}"
    );
    let is_fragment = |frame: &&Vec<u8>| ip(frame).is_some_and(|(_, p, _)| p == IPV6_FRAGMENT);
    let ipv6_fragments = guest_side.keys().filter(is_fragment).count() as u64;
    assert_eq!(fragments, ipv6_fragments, "{family}");
    // ARP and neighbour discovery are not TCP either.
    let least = packets as u64 - fragments;
    assert!(
        (least..least + 20).contains(&not_tcp),
        "{family}: {not_tcp} for {least}"
    );
    let flows = translation.programs.flows().unwrap();
    assert!(flows.is_empty(), "{family}: {flows:?}");
}

#[test]
fn live_udp_icmp_and_fragments_pass_byte_for_byte_over_ipv4() {
    if live_with(&["tcpdump", "ping"]) {
        other_protocols_pass("ipv4");
    }
}

#[test]
fn live_udp_icmp_and_fragments_pass_byte_for_byte_over_ipv6() {
    if live_with(&["tcpdump", "ping"]) {
        other_protocols_pass("ipv6");
    }
}

/// A second of transfer through a translated port that must pass it: (the guest's and the server's
/// stack, protocol, reason counted at the handshake).
fn passes_as(stack: &str, server: &str, protocol: i32, reason: Reason) {
    let text = guest("virtual", stack, "law = \"ecn\"");
    let stacks = format!("{STACKS}\n[stack.server]\n{server}");
    let network = AMPLE.replace("1Gbit", "50Mbit");
    let (plan, lab) = build(&experiment(1, &network, &text, &stacks));
    let translation = Translation::attach(&plan, &lab.wiring.hosts, 64);
    let end = |namespace, address, port| End {
        namespace,
        address: SocketAddr::new(address, port),
    };
    let from = end(&lab.wiring.guests[0], plan.guests[0].address, 40_000);
    let to = end(&lab.wiring.servers[0], plan.servers[0].address, 5001);
    let transfer = Transfer::start_with(from, to, protocol);
    std::thread::sleep(Duration::from_secs(1));
    let is_tcp = protocol == libc::IPPROTO_TCP;
    if is_tcp {
        let native = reason == Reason::GUEST_SPEAKS_ECN;
        assert_eq!(transfer.info().negotiated_ecn(), native, "{reason}");
    }
    transfer.reach(2_000_000);
    // No packet of it is modified, so pauses are the kernels' own (MPTCP's are longer than a second
    // on a busy machine).
    let (bytes, pause_ms) = transfer.end();
    println!(
        "{reason}: {bytes} bytes, {pause_ms} ms, {}",
        translation.counts()
    );
    assert!(
        translation.count(reason) > 0,
        "{reason}: {}",
        translation.counts()
    );
    // The guest's SYN was translated before its peer refused.
    let attempts = u64::from(reason == Reason::PEER_REFUSED_ECN);
    assert_eq!(
        translation.count(Reason::TRANSLATED),
        attempts,
        "{}",
        translation.counts()
    );
    assert!(
        translation.count(Reason::NO_HANDSHAKE) > 0,
        "{}",
        translation.counts()
    );
    assert!(translation.programs.flows().unwrap().is_empty(), "{reason}");
}

#[test]
fn live_guests_and_peers_that_differ_pass_and_work() {
    if !live() {
        return;
    }
    let (tcp, ecn) = (libc::IPPROTO_TCP, "ecn = true");
    std::thread::scope(|scope| {
        scope.spawn(|| passes_as("ecn", ecn, tcp, Reason::GUEST_SPEAKS_ECN));
        scope.spawn(|| passes_as("legacy", "ecn = false", tcp, Reason::PEER_REFUSED_ECN));
        scope.spawn(|| passes_as("legacy", ecn, libc::IPPROTO_MPTCP, Reason::MPTCP));
    });
}
