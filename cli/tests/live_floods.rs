//! Who opens far more flows than the table holds does not harm others: a guest, or strangers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etherparse::PacketBuilder;
use nix::sys::socket::{MsgFlags, send};
use uc_core::Reason;
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::{Translation, build, frame_socket};
use crate::common::transfer::{End, Transfer, exchange};
use crate::common::{AMPLE, RED1, STACKS, experiment, guest, live};

const FLOOD_PACKETS: u32 = 20_000;
const TABLE_FLOWS: u32 = 64;

/// Connections in each direction while floods go on.
const HONEST: u16 = 25;

/// An address that no host has.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 200);

/// A TCP port of the flooded guest that accepts connections.
const OPEN_PORT: u16 = 80;

fn v4(address: IpAddr) -> Ipv4Addr {
    let IpAddr::V4(address) = address else {
        panic!("an IPv4 plan");
    };
    address
}

/// Returns the `number`-th SYN of a flood by the first guest, to an unused address.
fn syn_of_guest(plan: &Plan, number: u32) -> Vec<u8> {
    let source = v4(plan.guests[0].address);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(plan.guests[0].mac, plan.servers[0].mac)
        .ipv4(source.octets(), NOBODY.octets(), 64)
        .tcp(10_000 + number as u16, 80, number, 64_000)
        .syn()
        .write(&mut frame, &[])
        .unwrap();
    frame
}

/// Returns the `number`-th SYN of a stranger to the first guest: it asks for ECN, from an address
/// that is not the sender's.
fn syn_of_stranger(plan: &Plan, number: u32) -> Vec<u8> {
    let guest = v4(plan.guests[0].address);
    let mut frame = Vec::new();
    // every other SYN is to a closed port
    let port = OPEN_PORT + (number % 2) as u16;
    PacketBuilder::ethernet2(plan.servers[0].mac, plan.guests[0].mac)
        .ipv4(NOBODY.octets(), guest.octets(), 64)
        .tcp(10_000 + (number / 2) as u16, port, number, 64_000)
        .syn()
        .ece()
        .cwr()
        .write(&mut frame, &[])
        .unwrap();
    frame
}

/// Sends frames until there were at least [`FLOOD_PACKETS`], and `goes_on` is no more.
fn flood(socket: &OwnedFd, frame: impl Fn(u32) -> Vec<u8>, goes_on: impl Fn() -> bool) -> u32 {
    let mut number = 0;
    while number < FLOOD_PACKETS || goes_on() {
        send(socket.as_raw_fd(), &frame(number), MsgFlags::empty()).unwrap();
        pause_after_burst(number);
        number += 1;
    }
    number
}

/// Sends SYNs to an unused address, each from another TCP port.
fn flood_syns(plan: &Plan, lab: &Lab) {
    let socket = frame_socket(&lab.wiring.guests[0]);
    flood(&socket, |number| syn_of_guest(plan, number), || false);
}

/// Sends datagrams of one byte, each to another port.
fn flood_datagrams(plan: &Plan, lab: &Lab) {
    let address = SocketAddr::new(plan.guests[0].address, 7000);
    let socket = lab.wiring.guests[0]
        .enter(|| UdpSocket::bind(address).unwrap())
        .unwrap();
    for number in 0..FLOOD_PACKETS {
        let to = SocketAddr::new(IpAddr::V4(NOBODY), 10_000 + number as u16);
        // No host answers for this address, so most of them would end at the guest's own neighbour
        // table without an entry.
        let _refused_or_sent = socket.send_to(&[1], to);
        pause_after_burst(number);
    }
}

/// Pauses so that a flood of 40 thousand packets per second leaves the machine's two CPUs some
/// time.
fn pause_after_burst(number: u32) {
    if number % 200 == 199 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn add_neighbour(plan: &Plan, lab: &Lab) {
    let mac = plan.servers[0]
        .mac
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    let mut command = lab.wiring.guests[0].command(uc_lab::need::program("ip").unwrap());
    command.args([
        "neigh",
        "replace",
        "10.77.0.200",
        "lladdr",
        &mac,
        "dev",
        "eth0",
    ]);
    assert!(
        command
            .args(["nud", "permanent"])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn live_floods_of_syns_and_datagrams_leave_room_and_the_flow_in_the_table_stays_translated() {
    if !live() {
        return;
    }
    in_peace(|| {
        // The flooding guest and its neighbour have a host each, and links of their own.
        let text = guest("virtual", "legacy", "law = \"ecn\"\ncount = 2");
        let network = RED1.replace("access_rate = \"12Mbit\"", "access_rate = \"100Mbit\"");
        let (plan, lab) = build(&experiment(1, &network, &text, STACKS));
        let translation = Translation::attach(&plan, &lab.wiring.hosts, TABLE_FLOWS);
        add_neighbour(&plan, &lab);
        let end = |namespace, address, port| End {
            namespace,
            address: SocketAddr::new(address, port),
        };
        let from = |port| end(&lab.wiring.guests[1], plan.guests[1].address, port);
        let to = |port| end(&lab.wiring.servers[0], plan.servers[0].address, port);
        let (source, destination) = (from(40_000).address, to(5001).address);
        let transfer = Transfer::start(from(40_000), to(5001));
        std::thread::sleep(Duration::from_millis(500));
        let before = translation
            .flow(&plan.guests[1].port, source, destination)
            .unwrap()
            .state;

        flood_datagrams(&plan, &lab);
        let flows = translation.programs.flows().unwrap().len();
        assert_eq!(
            flows,
            1,
            "datagrams enter no flow: {}",
            translation.counts()
        );
        assert!(translation.count(Reason::NOT_TCP) >= u64::from(FLOOD_PACKETS) / 2);
        flood_syns(&plan, &lab);

        let flows = translation.programs.flows().unwrap().len();
        println!("{flows} flows, {}", translation.counts());
        assert!(flows <= TABLE_FLOWS as usize / 4 + 1, "{flows} flows");
        assert_eq!(translation.count(Reason::TABLE_FULL), 0);
        let after = translation
            .flow(&plan.guests[1].port, source, destination)
            .unwrap()
            .state;
        let advanced = after.snd_una.wrapping_sub(before.snd_una);
        println!(
            "{advanced} bytes acknowledged during the floods, {} cuts",
            after.cuts
        );
        assert!(
            advanced > 100_000 && after.cuts > before.cuts,
            "{advanced} {}",
            after.cuts
        );
        transfer.finish();

        // A new connection of the neighbour is translated.
        let late = Transfer::start(from(40_001), to(5002));
        std::thread::sleep(Duration::from_millis(500));
        late.reach(100_000);
        let entered = translation.flow(&plan.guests[1].port, late.source, late.destination);
        let state = entered.expect("its flow is in the table").state;
        assert!(!uc_core::is_half_open(&state), "{}", translation.counts());
        late.finish();
    });
}

/// Opens a connection between two ends, and closes it. Returns its two ends.
fn connection(from: End<'_>, to: End<'_>) -> (SocketAddr, SocketAddr) {
    let listen = || TcpListener::bind(to.address).unwrap();
    let listener = to.namespace.enter(listen).unwrap();
    let connect = || TcpStream::connect(to.address).unwrap();
    let mut source = None;
    exchange(&listener, || {
        let stream = from.namespace.enter(connect).unwrap();
        source = Some(stream.local_addr().unwrap());
        stream
    });
    (source.unwrap(), to.address)
}

#[test]
fn live_connections_of_a_neighbour_are_translated_while_a_guest_and_strangers_flood() {
    if !live() {
        return;
    }
    let text = guest("virtual", "legacy", "law = \"ecn\"\ncount = 2");
    let (plan, lab) = build(&experiment(1, AMPLE, &text, STACKS));
    let translation = Translation::attach(&plan, &lab.wiring.hosts, 256);
    add_neighbour(&plan, &lab);
    let open = SocketAddr::new(plan.guests[0].address, OPEN_PORT);
    let listen = || TcpListener::bind(open).unwrap();
    let _listener = lab.wiring.guests[0].enter(listen).unwrap();
    let neighbour = |port| End {
        namespace: &lab.wiring.guests[1],
        address: SocketAddr::new(plan.guests[1].address, port),
    };
    let server = |port| End {
        namespace: &lab.wiring.servers[0],
        address: SocketAddr::new(plan.servers[0].address, port),
    };
    let port = &plan.guests[1].port;
    let was = connection(neighbour(0), server(4999));
    let is_translated = |guest, remote| {
        let flow = translation.flow(port, guest, remote);
        flow.is_some_and(|flow| !uc_core::is_half_open(&flow.state))
    };
    assert!(is_translated(was.0, was.1));

    let stop = AtomicBool::new(false);
    let (by_guest, by_strangers) = (&lab.wiring.guests[0], &lab.wiring.servers[0]);
    let (by_guest, by_strangers) = (frame_socket(by_guest), frame_socket(by_strangers));
    let goes_on = || !stop.load(Ordering::Relaxed);
    let translated = std::thread::scope(|scope| {
        let syns = scope.spawn(|| flood(&by_guest, |at| syn_of_guest(&plan, at), goes_on));
        let strangers =
            scope.spawn(|| flood(&by_strangers, |at| syn_of_stranger(&plan, at), goes_on));
        let mut translated = 0;
        for number in 0..HONEST {
            let (guest, remote) = connection(neighbour(0), server(5_000 + number));
            translated += u32::from(is_translated(guest, remote));
            let (remote, guest) = connection(server(0), neighbour(6_000 + number));
            translated += u32::from(is_translated(guest, remote));
        }
        stop.store(true, Ordering::Relaxed);
        let sent = [syns.join().unwrap(), strangers.join().unwrap()];
        println!(
            "{translated} of {} translated; floods of {sent:?} SYNs",
            2 * HONEST
        );
        translated
    });
    println!("{}", translation.counts());
    assert_eq!(
        translated,
        2 * u32::from(HONEST),
        "{}",
        translation.counts()
    );
    assert!(is_translated(was.0, was.1), "it was there before");
    assert!(translation.programs.flows().unwrap().len() < 256 - 64);
}
