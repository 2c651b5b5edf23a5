//! The emulated network as real kernels see it: delay, serialization, and every byte.

mod support;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use support::ping::{ECHO_HEADER_BYTES, ping};
use support::{build, experiment, live};
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

const TWO_HOSTS: &str = "[[case.guests]]\nname = \"g\"\ncount = 2\nstack = \"reno\"";
const RENO: &str = "[stack.reno]\ncongestion_control = \"reno\"";

fn star(rate: &str, delay: &str, family: &str) -> (Plan, Lab) {
    let network = format!(
        "rate = \"{rate}\"\ndelay = \"{delay}\"\nfamily = \"{family}\"\n\
         queue = {{ kind = \"droptail\", limit = \"1MB\" }}"
    );
    build(&experiment(1, &network, TWO_HOSTS, RENO))
}

#[test]
fn live_a_ping_takes_four_delays_and_four_transmissions() {
    if !live() {
        return;
    }
    in_peace(|| {
        for (payload_bytes, rate_mbit, delay_us) in
            [(56, 10, 5000), (1400, 10, 1000), (56, 100, 250)]
        {
            let (plan, lab) = star(
                &format!("{rate_mbit}Mbit"),
                &format!("{delay_us}us"),
                "ipv4",
            );
            let payload: Vec<u8> = (0..payload_bytes).map(|byte| byte as u8).collect();
            let pings = (0..20).map(|n| ping(&lab, 0, plan.servers[0].address, n, &payload));
            let least = pings.min().unwrap();
            let bits = (ECHO_HEADER_BYTES + payload_bytes) as u64 * 8;
            let expected = Duration::from_nanos(4 * (delay_us * 1000 + bits * 1000 / rate_mbit));
            // The network is never early; lateness comes from wake-ups and the two stacks.
            let late = least.checked_sub(expected);
            println!("expected {expected:?}, minimum of 20 {least:?}");
            assert!(
                late.is_some_and(|late| late < Duration::from_micros(400)),
                "{least:?}"
            );
        }
    });
}

#[test]
fn live_udp_of_every_length_comes_back_byte_for_byte_in_both_families() {
    if !live() {
        return;
    }
    for family in ["ipv4", "ipv6"] {
        udp_of_every_length_comes_back(family);
    }
}

/// Sends datagrams of 0 to 1452 bytes from guest 1 to the server and back, and compares them. The
/// emulated network loses none.
fn udp_of_every_length_comes_back(family: &str) {
    let (plan, lab) = star("1Gbit", "20us", family);
    let bind = |address: IpAddr| {
        move || {
            let socket = UdpSocket::bind(SocketAddr::new(address, 7)).unwrap();
            let timeout = Some(Duration::from_millis(500));
            socket.set_read_timeout(timeout).unwrap();
            socket
        }
    };
    let server = lab.wiring.servers[0]
        .enter(bind(plan.servers[0].address))
        .unwrap();
    let address = plan.guests[1].address;
    let guest = lab.wiring.guests[1].enter(bind(address)).unwrap();
    guest.connect((plan.servers[0].address, 7)).unwrap();
    for length in (0..=1452).step_by(11) {
        let sent: Vec<u8> = (0..length).map(|at| (at * 31 + length) as u8).collect();
        let to_server = format!("{family}: {length} bytes to the server");
        let from = deliver(&sent, &|| guest.send(&sent), &server, &to_server);
        assert_eq!(from.ip(), address, "{to_server}");
        let to_guest = format!("{family}: {length} bytes to the guest");
        deliver(&sent, &|| server.send_to(&sent, from), &guest, &to_guest);
    }
    let report = lab.finish().unwrap();
    for (name, link) in &report.links {
        assert_eq!(link.dropped_packets, 0, "{family}: {name}");
    }
    for counter in ["wire_refused_frames", "wire_unknown_destinations"] {
        assert_eq!(report.counters[counter], 0, "{family}: {counter}");
    }
}

/// Sends a datagram until it arrives, and returns where it came from. The kernels at both ends may lose
/// datagrams of a busy machine; a copy of a shorter one may still be on its way.
fn deliver(
    sent: &[u8],
    send: &dyn Fn() -> std::io::Result<usize>,
    at: &UdpSocket,
    what: &str,
) -> SocketAddr {
    let mut buffer = [0; 2048];
    for _ in 0..20 {
        send().unwrap();
        while let Ok((count, from)) = at.recv_from(&mut buffer) {
            if count >= sent.len() {
                assert_eq!(&buffer[..count], sent, "{what}");
                return from;
            }
        }
        println!("{what}: not arrived in 500 ms");
    }
    panic!("{what}: none of 20 arrived");
}

#[test]
fn live_guests_that_do_not_know_each_other_find_each_other_by_broadcast() {
    if !live() {
        return;
    }
    let (plan, lab) = star("10Mbit", "1ms", "ipv4");
    // Only the server is a static neighbour; the path to another guest begins with ARP.
    ping(&lab, 0, plan.guests[1].address, 1, b"hello");
    let report = lab.finish().unwrap();
    assert_eq!(report.counters["wire_unknown_destinations"], 0);
    assert_eq!(report.counters["wire_refused_frames"], 0);
    assert!(
        report.counters["wire_delivered_frames"] >= 4,
        "{:?}",
        report.counters
    );
}

#[test]
fn live_random_loss_has_the_given_rate_and_spares_the_queue() {
    if !live() {
        return;
    }
    const SENT: u64 = 5_000;
    const CHANCE: f64 = 0.1;
    in_peace(|| {
        let network = format!(
            "rate = \"100Mbit\"\ndelay = \"100us\"\nloss = {CHANCE}\n\
             queue = {{ kind = \"droptail\", limit = \"1MB\" }}"
        );
        let (plan, lab) = build(&experiment(1, &network, TWO_HOSTS, RENO));
        let at = SocketAddr::new(plan.servers[0].address, 9_000);
        let bind = || {
            let socket = UdpSocket::bind(at).unwrap();
            setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20)).unwrap();
            socket
        };
        let receiver = lab.wiring.servers[0].enter(bind).unwrap();
        let send = || {
            let socket = UdpSocket::bind(SocketAddr::new(plan.guests[0].address, 0)).unwrap();
            for _ in 0..SENT {
                socket.send_to(&[7; 100], at).unwrap();
            }
        };
        lab.wiring.guests[0].enter(send).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 200]).is_ok() {
            received += 1;
        }
        let report = lab.finish().unwrap();
        let link = report.links["switch->receiver"];
        println!("{received} of {SENT} received; {link:?}");
        // Some frames of the kernels' own cross the link, too.
        let lost = SENT - received;
        assert!(
            (lost..lost + 20).contains(&link.dropped_packets),
            "{lost}: {link:?}"
        );
        // Expected 500, standard deviation 21: within six of them.
        assert!((373..628).contains(&lost), "{lost} of {SENT}");
    });
}
