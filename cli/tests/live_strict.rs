//! Strict mode between real kernels: Multipath TCP and Accurate ECN fall back and are translated, a
//! guest's forged handshakes let its flow go on, and fragments of TCP do not leave.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use etherparse::PacketBuilder;
use nix::sys::socket::{MsgFlags, send};
use uc_core::{Flow, Policy, Reason, consts};
use uc_lab::{Lab, Plan};

use crate::common::bench::{Translation, build, frame_socket, reason, wait_until};
use crate::common::transfer::{End, Transfer};
use crate::common::{RED1, STACKS, experiment, guest, live};

const GUEST_PORT: u16 = 40_000;
const REMOTE_PORT: u16 = 5001;
/// Bytes of a transfer that an untranslated flow sends as well.
const BYTES: u64 = 200_000;

struct Bench {
    plan: Plan,
    lab: Lab,
    translation: Translation,
}

impl Bench {
    fn new() -> Bench {
        let text = guest("virtual", "legacy", "law = \"ecn\"");
        let (plan, lab) = build(&experiment(1, RED1, &text, STACKS));
        let strict = |policy| Policy {
            modes: consts::MODE_STRICT as u8,
            ..policy
        };
        let translation = Translation::attach_with(&plan, &lab.wiring.hosts, 64, strict);
        Bench {
            plan,
            lab,
            translation,
        }
    }

    fn guest(&self) -> End<'_> {
        End {
            namespace: &self.lab.wiring.guests[0],
            address: SocketAddr::new(self.plan.guests[0].address, GUEST_PORT),
        }
    }

    fn remote(&self) -> End<'_> {
        End {
            namespace: &self.lab.wiring.servers[0],
            address: SocketAddr::new(self.plan.servers[0].address, REMOTE_PORT),
        }
    }

    fn count(&self, label: &str) -> u64 {
        self.translation.count(reason(label))
    }

    fn flow(&self) -> Flow {
        let port = &self.plan.guests[0].port;
        let (guest, remote) = (self.guest().address, self.remote().address);
        let view = self.translation.flow(port, guest, remote);
        view.unwrap_or_else(|| panic!("no flow: {}", self.translation.counts()))
            .state
    }

    /// Sends a TCP frame out of the guest; `change` edits its bytes.
    fn forge(&self, socket: &OwnedFd, header: Forged, change: impl FnOnce(&mut Vec<u8>)) {
        let (guest, remote) = (self.guest().address, self.remote().address);
        let (IpAddr::V4(source), IpAddr::V4(to)) = (guest.ip(), remote.ip()) else {
            panic!("an IPv4 plan");
        };
        let builder = PacketBuilder::ethernet2(self.plan.guests[0].mac, self.plan.servers[0].mac)
            .ipv4(source.octets(), to.octets(), header.ttl)
            .tcp(GUEST_PORT, REMOTE_PORT, header.seq, 64_000);
        let builder = match header.ack {
            Some(ack) => builder.ack(ack),
            None => builder,
        };
        let builder = if header.syn { builder.syn() } else { builder };
        let builder = match header.accurate {
            true => builder.ns().ece().cwr(),
            false => builder,
        };
        let mut frame = Vec::new();
        builder
            .write(&mut frame, &vec![0x5a; header.bytes])
            .unwrap();
        change(&mut frame);
        send(socket.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
    }
}

#[derive(Clone, Copy)]
struct Forged {
    ttl: u8,
    seq: u32,
    ack: Option<u32>,
    syn: bool,
    /// Whether a SYN offers Accurate ECN.
    accurate: bool,
    bytes: usize,
}

#[test]
fn live_multipath_tcp_falls_back_and_is_translated() {
    if !live() {
        return;
    }
    let bench = Bench::new();
    let transfer = Transfer::start_with(bench.guest(), bench.remote(), libc::IPPROTO_MPTCP);
    transfer.reach(BYTES);
    transfer.end();
    println!("{}", bench.translation.counts());
    assert!(
        bench.count("downgraded") >= 1,
        "{}",
        bench.translation.counts()
    );
    assert!(bench.translation.count(Reason::TRANSLATED) > 100);
    for passes in ["mptcp", "guest_speaks_ecn", "no_handshake"] {
        assert_eq!(
            bench.count(passes),
            0,
            "{passes}: {}",
            bench.translation.counts()
        );
    }
}

#[test]
fn live_accurate_ecn_is_removed_from_a_syn_and_its_peer_agrees_to_classic_ecn() {
    if !live() {
        return;
    }
    let bench = Bench::new();
    let remote = bench.remote();
    let listen = || TcpListener::bind(remote.address).unwrap();
    let _listener = remote.namespace.enter(listen).unwrap();
    let socket = frame_socket(bench.guest().namespace);
    let offer = Forged {
        ttl: 64,
        seq: 1,
        ack: None,
        syn: true,
        accurate: true,
        bytes: 0,
    };
    bench.forge(&socket, offer, |_| ());
    // the guest, which knows of no connection, resets it
    wait_until("the peer answers", || {
        u32::from(bench.flow().stage) == consts::TRANSLATING
    });
    assert_eq!(bench.count("downgraded"), 1);
    assert!(bench.flow().has_ecn());
}

#[test]
fn live_forged_handshakes_of_the_guest_let_its_flow_go_on_and_its_guard() {
    if !live() {
        return;
    }
    let bench = Bench::new();
    let transfer = Transfer::start(bench.guest(), bench.remote());
    transfer.reach(BYTES);
    let socket = frame_socket(bench.guest().namespace);
    for number in 0..10 {
        let flow = bench.flow();
        let decoy = Forged {
            ttl: 1,
            seq: flow.snd_nxt.wrapping_add(number << 24),
            ack: None,
            syn: true,
            accurate: false,
            bytes: 0,
        };
        let answer = Forged {
            ack: Some(flow.echoed_ack),
            ..decoy
        };
        bench.forge(&socket, decoy, |_| ());
        bench.forge(&socket, answer, |_| ());
        let before = transfer.delivered_bytes();
        wait_until("data arrives", || {
            transfer.delivered_bytes() > before + 10_000
        });
    }
    assert!(
        bench.count("strict_no_handshake") >= 10,
        "{}",
        bench.translation.counts()
    );
    assert_eq!(u32::from(bench.flow().stage), consts::TRANSLATING);
    // what it then sends beyond its window does not leave
    let dropped = bench.translation.count(Reason::BEYOND_EDGE);
    for nth in 0..40 {
        let data = Forged {
            ttl: 64,
            seq: bench
                .flow()
                .furthest_edge
                .wrapping_add(3_000_000 + nth * 1_000),
            ack: Some(bench.flow().echoed_ack),
            syn: false,
            accurate: false,
            bytes: 1_000,
        };
        bench.forge(&socket, data, |_| ());
    }
    wait_until("40 segments are dropped", || {
        bench.translation.count(Reason::BEYOND_EDGE) >= dropped + 40
    });
    println!("{}", bench.translation.counts());
    transfer.finish();
}

#[test]
fn live_fragments_of_tcp_are_dropped_and_those_of_udp_pass() {
    if !live() {
        return;
    }
    let bench = Bench::new();
    let socket = frame_socket(bench.guest().namespace);
    let data = Forged {
        ttl: 64,
        seq: 1,
        ack: Some(1),
        syn: false,
        accurate: false,
        bytes: 1_000,
    };
    for fragment in [0x2000u16, 0x0010] {
        bench.forge(&socket, data, |frame| {
            frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        });
    }
    wait_until("both are dropped", || bench.count("strict_fragment") == 2);
    let bind = |end: End<'_>| {
        let open = || UdpSocket::bind((end.address.ip(), 7_000)).unwrap();
        let socket = end.namespace.enter(open).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
    };
    let (near, far) = (bind(bench.guest()), bind(bench.remote()));
    near.send_to(&[7; 4_000], (bench.remote().address.ip(), 7_000))
        .unwrap();
    let mut buffer = [0; 8_192];
    assert_eq!(far.recv_from(&mut buffer).unwrap().0, 4_000);
    assert_eq!(bench.count("strict_fragment"), 2);
}
