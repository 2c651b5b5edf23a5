//! A server with ECN sends to a guest without it, and the port forgets the flow on the way: the server's
//! congestion control hears of further marks by losses. Controls: a policy that passes such marks, and a
//! guest that has negotiated ECN itself.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use uc_live::in_peace;

use crate::common::bench::wait_until;
use crate::common::by_hand::packets;
use crate::common::ends::{listen, open};
use crate::common::marked::network;
use crate::common::routed::{Routed, ip};
use crate::common::sandbox::Sandbox;
use crate::common::truth::info;
use crate::common::uc::success;

/// Number of full ECT packets of the server of which the network marks one.
const MARKED_EACH: u64 = 50;
/// Bytes of a transfer: 6,900 packets.
const BYTES: usize = 10_000_000;
const MARKS: u64 = BYTES as u64 / 1_448 / MARKED_EACH;
/// Marks that test a guest until it is taken for deaf: one before its first ACK, and three after it. Others
/// may pass meanwhile.
const TESTS: u64 = 4;

/// What became of the marks on a transfer.
#[derive(Debug)]
struct Heard {
    marks: u64,
    /// Marked packets that the port dropped.
    dropped: u64,
    /// Packets that the server retransmitted, and that the guest had not received before.
    retransmitted: u64,
    /// Packets of which the server learned by ECE that they were marked.
    echoed: u64,
}

struct Site {
    net: Routed,
    sandbox: Sandbox,
}

impl Site {
    /// `ecn`: the guest's `net.ipv4.tcp_ecn`.
    fn new(ecn: &str) -> Option<Self> {
        let net = network()?;
        let ecn = ("net.ipv4.tcp_ecn", ecn.to_owned());
        net.guest.set_sysctls(&[ecn]).unwrap();
        // single packets, so that one in so many is marked
        ip(&net.server, "link set eth0 gso_max_segs 1");
        net.nft(&format!(
            "table ip t {{ chain c {{ type filter hook forward priority 0; \
             ip saddr 10.2.0.2 ip ecn ect0 meta length > 1000 numgen inc mod {MARKED_EACH} 0 \
             counter ip ecn set ce comment \"marks\"; }}; }}"
        ));
        let sandbox = Sandbox::with_run();
        Some(Self { net, sandbox })
    }

    fn uc(&self, arguments: &[&str]) -> String {
        success(self.sandbox.uc(&self.net.host, arguments))
    }

    /// Opens a connection of the guest; returns its end and the server's.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let at = Routed::server(0, false, 80);
        open(&self.net.guest, &listen(&self.net.server, at))
    }

    fn counted(&self) -> [u64; 2] {
        let flows = serde_json::from_str(&self.uc(&["flows", "--json"])).unwrap();
        [self.net.counted("marks"), packets(&flows, "unanswered")]
    }

    /// Sends [`BYTES`] from the server to the guest.
    fn transfer(&self, (guest, server): &(TcpStream, TcpStream)) -> Heard {
        let (before, counted) = (info(server), self.counted());
        let (mut reader, mut writer) = (guest, server);
        thread::scope(|scope| {
            scope.spawn(move || reader.read_exact(&mut vec![0; BYTES]).unwrap());
            writer.write_all(&vec![0; BYTES]).unwrap();
        });
        wait_until("all is acknowledged", || info(server).unacked == 0);
        let (after, now) = (info(server), self.counted());
        let heard = Heard {
            marks: now[0] - counted[0],
            dropped: now[1] - counted[1],
            retransmitted: (after.needed_retransmits() - before.needed_retransmits()).into(),
            echoed: (after.delivered_ce - before.delivered_ce).into(),
        };
        println!("{heard:?}");
        assert!(heard.marks > MARKS / 2, "{heard:?}");
        heard
    }

    /// Opens a connection that the port translates; then the port forgets it, and is attached again with
    /// these arguments.
    fn forget(&self, arguments: &[&str]) -> (TcpStream, TcpStream) {
        self.uc(&["attach", "port0"]);
        let ends = self.connect();
        let heard = self.transfer(&ends);
        assert_eq!((heard.dropped, heard.retransmitted), (0, 0), "{heard:?}");
        assert!(heard.echoed >= heard.marks, "{heard:?}");
        self.uc(&["detach", "port0", "--now"]);
        self.uc(&[&["attach", "port0"], arguments].concat());
        ends
    }
}

#[test]
fn live_the_peer_of_a_forgotten_flow_hears_of_marks_by_losses() {
    in_peace(|| {
        let Some(site) = Site::new("0") else {
            return;
        };
        let ends = site.forget(&[]);
        let heard = site.transfer(&ends);
        let passed = heard.marks - heard.dropped;
        assert!((TESTS..3 * TESTS).contains(&passed), "{heard:?}");
        assert!(heard.retransmitted >= heard.dropped, "{heard:?}");
        assert_eq!(heard.echoed, 0, "{heard:?}");
        site.uc(&["detach", "--all", "--now"]);
    });
}

#[test]
fn live_the_peer_of_a_forgotten_flow_hears_of_no_mark_where_policy_passes_it() {
    in_peace(|| {
        let Some(site) = Site::new("0") else {
            return;
        };
        let ends = site.forget(&["--pass-unanswered"]);
        let heard = site.transfer(&ends);
        let Heard {
            dropped,
            retransmitted,
            echoed,
            ..
        } = heard;
        assert_eq!([dropped, retransmitted, echoed], [0; 3], "{heard:?}");
        site.uc(&["detach", "--all", "--now"]);
    });
}

#[test]
fn live_a_flow_whose_guest_has_negotiated_ecn_before_the_attach_loses_no_packet() {
    in_peace(|| {
        let Some(site) = Site::new("1") else {
            return;
        };
        let ends = site.connect();
        site.uc(&["attach", "port0"]);
        let heard = site.transfer(&ends);
        assert_eq!([heard.dropped, heard.retransmitted], [0; 2], "{heard:?}");
        assert!(heard.echoed >= heard.marks, "{heard:?}");
        site.uc(&["detach", "--all", "--now"]);
    });
}
