//! A guest that opens far more flows than the table holds does not harm others.

mod common;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use common::bench::{Translation, build, frame_socket};
use common::transfer::{End, Transfer};
use common::{RED1, STACKS, experiment, guest, live};
use etherparse::PacketBuilder;
use nix::sys::socket::{MsgFlags, send};
use uc_core::Reason;
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

const FLOOD_PACKETS: u32 = 20_000;
const TABLE_FLOWS: u32 = 64;

/// Sends SYNs to an unused address, each from another TCP port.
fn flood_syns(plan: &Plan, lab: &Lab) {
    let socket = frame_socket(&lab.wiring.guests[0]);
    let IpAddr::V4(source) = plan.guests[0].address else {
        panic!("an IPv4 plan");
    };
    let nobody = Ipv4Addr::new(10, 77, 0, 200);
    for number in 0..FLOOD_PACKETS {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(plan.guests[0].mac, plan.server.mac)
            .ipv4(source.octets(), nobody.octets(), 64)
            .tcp(10_000 + number as u16, 80, number, 64_000)
            .syn()
            .write(&mut frame, &[])
            .unwrap();
        send(socket.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
        pause_after_burst(number);
    }
}

/// Sends datagrams of one byte, each to another port.
fn flood_datagrams(plan: &Plan, lab: &Lab) {
    let address = SocketAddr::new(plan.guests[0].address, 7000);
    let socket = lab.wiring.guests[0]
        .enter(|| UdpSocket::bind(address).unwrap())
        .unwrap();
    for number in 0..FLOOD_PACKETS {
        let to = SocketAddr::new(IpAddr::from([10, 77, 0, 200]), 10_000 + number as u16);
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
    let mac = plan.server.mac.map(|byte| format!("{byte:02x}")).join(":");
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
fn live_floods_of_syns_and_datagrams_fill_the_table_and_the_flow_in_it_stays_translated() {
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
        let to = |port| end(&lab.wiring.server, plan.server.address, port);
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
        let full = translation.count(Reason::TABLE_FULL);
        println!("{flows} flows, {}", translation.counts());
        assert!(flows <= TABLE_FLOWS as usize, "{flows} flows");
        assert!(
            full >= u64::from(FLOOD_PACKETS - TABLE_FLOWS),
            "{}",
            translation.counts()
        );
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

        // A new connection finds no table entry, passes and works.
        let late = Transfer::start(from(40_001), to(5002));
        std::thread::sleep(Duration::from_millis(500));
        let entered = translation.flow(&plan.guests[1].port, late.source, late.destination);
        assert!(entered.is_none(), "{}", translation.counts());
        late.reach(100_000);
        late.finish();
    });
}
