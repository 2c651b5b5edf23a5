//! A port is detached under marks: until the last flow with ECN has ended, each mark on its peer's data is
//! answered; then the programs go by themselves. A control without the draining shows the harm.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use uc_lab::netns::Namespace;
use uc_live::in_peace;

use crate::common::by_hand::packets;
use crate::common::ends::{PATIENCE, listen};
use crate::common::live_with;
use crate::common::routed::Routed;
use crate::common::sandbox::Sandbox;
use crate::common::truth::info;
use crate::common::uc::success;

const ROUNDS: usize = 10;
/// Flows of a round that the guest opens, and as many that the server opens.
const FLOWS: u16 = 4;
const GUEST_PORT: u16 = 81;
const SERVER_PORT: u16 = 80;
/// How long each part of a round lasts.
const PART: Duration = Duration::from_millis(300);
/// How long after the last flow's end the programs may stay.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// Length of a message of the server, and of one that the network marks: every fifth.
const MESSAGE: usize = 500;
const MARKED_MESSAGE: usize = 700;
const MARKED_EACH: u32 = 5;
/// Marks the longer messages and counts them; counts the guest's ECT packets.
const MARKS: &str = "table ip t { chain c { type filter hook forward priority 0; \
     ip saddr 10.2.0.2 ip ecn ect0 meta length > 700 counter ip ecn set ce comment \"marks\"; \
     ip saddr 10.1.0.2 ip ecn ect0 counter comment \"ect\"; }; }";

/// What the server has counted of one connection, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Messages that the network has marked.
    marked: u64,
    /// Marked messages since the port was detached.
    marked_after: u64,
    /// Marked messages whose acknowledgement had no echo.
    unanswered: u64,
}

/// What the test tells the ends of its connections.
#[derive(Default)]
struct Told {
    is_detached: AtomicBool,
    stop: AtomicBool,
}

/// Sends one message at a time, and waits for the guest's answer: it acknowledges the message.
fn ask(mut end: TcpStream, told: &Told) -> Counts {
    let mut counts = Counts::default();
    let mut nth = 0;
    while !told.stop.load(Ordering::Relaxed) {
        nth += 1;
        let is_marked = nth % MARKED_EACH == 0;
        let is_after = told.is_detached.load(Ordering::Relaxed);
        let before = info(&end).delivered_ce;
        let mut message = [0; MARKED_MESSAGE];
        message[0] = is_marked.into();
        let length = if is_marked { MARKED_MESSAGE } else { MESSAGE };
        end.write_all(&message[..length]).unwrap();
        end.read_exact(&mut [0]).unwrap();
        if is_marked {
            counts.marked += 1;
            counts.marked_after += u64::from(is_after);
            counts.unanswered += u64::from(info(&end).delivered_ce == before);
        }
        thread::sleep(Duration::from_millis(2));
    }
    end.shutdown(Shutdown::Both).unwrap();
    counts
}

fn answer(mut end: TcpStream) {
    let mut message = [0; MARKED_MESSAGE];
    while end.read_exact(&mut message[..MESSAGE]).is_ok() {
        if message[0] == 1 {
            end.read_exact(&mut message[MESSAGE..]).unwrap();
        }
        end.write_all(&[0]).unwrap();
    }
}

/// Connections of a round, while they last.
struct Flows {
    told: Arc<Told>,
    servers: Vec<JoinHandle<Counts>>,
    guests: Vec<JoinHandle<()>>,
}

impl Flows {
    fn start(&mut self, server: TcpStream, guest: TcpStream) {
        for end in [&server, &guest] {
            end.set_nodelay(true).unwrap();
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        let told = Arc::clone(&self.told);
        self.servers.push(thread::spawn(move || ask(server, &told)));
        self.guests.push(thread::spawn(move || answer(guest)));
    }

    fn end(self) -> Counts {
        self.told.stop.store(true, Ordering::Relaxed);
        let mut sum = Counts::default();
        for server in self.servers {
            let counts = server.join().unwrap();
            sum.marked += counts.marked;
            sum.marked_after += counts.marked_after;
            sum.unanswered += counts.unanswered;
        }
        self.guests.into_iter().for_each(|end| end.join().unwrap());
        sum
    }
}

struct Site {
    net: Routed,
    sandbox: Sandbox,
}

impl Site {
    fn new() -> Option<Self> {
        if !live_with(&["ip", "nft", "unshare", "nsenter", "mount"]) {
            return None;
        }
        let net = Routed::build(&[None], 1);
        for (end, ecn) in [(&net.server, "1"), (&net.guest, "0")] {
            let ecn = ("net.ipv4.tcp_ecn", ecn.to_owned());
            end.set_sysctls(&[ecn]).unwrap();
        }
        net.nft(MARKS);
        let sandbox = Sandbox::with_run();
        Some(Self { net, sandbox })
    }

    fn uc(&self, arguments: &[&str]) -> String {
        success(self.sandbox.uc(&self.net.host, arguments))
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.uc(&[command, "--json"])).unwrap()
    }

    /// Returns the packets that a rule of [`MARKS`] has counted.
    fn counted(&self, comment: &str) -> u64 {
        let mut nft = self.net.host.command("nft");
        nft.args(["--json", "list", "table", "ip", "t"]);
        let list: Value = serde_json::from_str(&success(nft)).unwrap();
        let rows = list["nftables"].as_array().unwrap();
        let rule = rows.iter().find(|row| row["rule"]["comment"] == comment);
        let parts = rule.unwrap()["rule"]["expr"].as_array().unwrap();
        let counter = parts.iter().find(|part| part["counter"].is_object());
        counter.unwrap()["counter"]["packets"].as_u64().unwrap()
    }

    fn open_flows(&self) -> Flows {
        let at_server = listen(&self.net.server, Routed::server(0, false, SERVER_PORT));
        let at_guest = listen(&self.net.guest, Routed::guest(false, GUEST_PORT));
        let connect = |from: &Namespace, to: SocketAddr| {
            from.enter(move || TcpStream::connect(to).unwrap()).unwrap()
        };
        let mut flows = Flows {
            told: Arc::default(),
            servers: Vec::new(),
            guests: Vec::new(),
        };
        for _ in 0..FLOWS {
            let guest = connect(&self.net.guest, at_server.local_addr().unwrap());
            flows.start(at_server.accept().unwrap().0, guest);
            let server = connect(&self.net.server, at_guest.local_addr().unwrap());
            flows.start(server, at_guest.accept().unwrap().0);
        }
        flows
    }

    /// Attaches the port, lets flows begin, and detaches the port with these arguments. Returns the flows
    /// and what `uc detach` has printed.
    fn detach_under_marks(&self, via: &str, arguments: &[&str]) -> (Flows, String) {
        self.uc(&["attach", "port0", "--via", via]);
        let flows = self.open_flows();
        thread::sleep(PART);
        let told = self.uc(arguments);
        flows.told.is_detached.store(true, Ordering::Relaxed);
        (flows, told)
    }

    /// Checks that the port drains, and that the guest's packets are ECT no more.
    fn assert_drains(&self) {
        let ect = self.counted("ect");
        thread::sleep(PART);
        assert_eq!(self.counted("ect"), ect, "the guest's packets are ECT");
        let seen = self.json("status");
        let port = &seen["ports"][0];
        assert_eq!(port["draining"], 2 * FLOWS, "{seen}");
        assert_eq!(port["rules_in_force"], 0, "{seen}");
        assert_eq!(seen["in_force"], true, "{seen}");
    }

    fn wait_until_clean(&self) -> Duration {
        let began = Instant::now();
        while !self.sandbox.is_clean() {
            assert!(began.elapsed() < GONE_WITHIN, "{:?}", self.sandbox.pins());
            thread::sleep(Duration::from_millis(20));
        }
        began.elapsed()
    }
}

#[test]
fn live_each_mark_is_answered_until_the_last_flow_of_a_port_that_drains_has_ended() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        for round in 0..ROUNDS {
            let via = ["tcx", "clsact"][round % 2];
            let marks = site.counted("marks");
            let (flows, told) = site.detach_under_marks(via, &["detach", "port0"]);
            assert!(told.starts_with("port0: drains: 8 flows"), "{told}");
            site.assert_drains();
            let counts = flows.end();
            let gone = site.wait_until_clean();
            println!("{via}: {counts:?}, gone after {gone:?}");
            assert!(counts.marked_after > 30, "{via}: {counts:?}");
            assert_eq!(counts.unanswered, 0, "{via}: {counts:?}");
            assert_eq!(site.counted("marks") - marks, counts.marked, "{via}");
        }
    });
}

#[test]
fn live_a_port_that_is_attached_again_while_it_drains_translates_its_flows() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        let (flows, _) = site.detach_under_marks("auto", &["detach", "port0"]);
        site.assert_drains();
        let told = site.uc(&["attach", "port0"]);
        assert!(told.starts_with("port0: attached"), "{told}");
        let (ect, coarse) = (
            site.counted("ect"),
            packets(&site.json("flows"), "coarse_window"),
        );
        thread::sleep(PART);
        assert!(
            site.counted("ect") > ect,
            "the guest's packets are ECT again"
        );
        assert_eq!(packets(&site.json("flows"), "coarse_window"), coarse);
        let status = site.json("status");
        assert_eq!(status["ports"][0]["draining"], Value::Null, "{status}");
        let counts = flows.end();
        assert_eq!(counts.unanswered, 0, "{counts:?}");
        site.uc(&["detach", "port0", "--wait"]);
        assert!(site.sandbox.is_clean(), "{:?}", site.sandbox.pins());
    });
}

#[test]
fn live_marks_are_unanswered_after_a_port_goes_at_once() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        let (flows, told) = site.detach_under_marks("auto", &["detach", "--all", "--now"]);
        assert!(site.sandbox.is_clean(), "{:?}", site.sandbox.pins());
        assert!(
            told.contains("the peers of 8 flows may go on sending ECT"),
            "{told}"
        );
        thread::sleep(PART);
        let counts = flows.end();
        println!("at once: {counts:?}");
        assert!(counts.marked_after > 10, "{counts:?}");
        assert!(counts.unanswered >= counts.marked_after, "{counts:?}");
    });
}
