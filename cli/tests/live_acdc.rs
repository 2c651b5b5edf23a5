//! Every kind of sender and receiver around a port with law `dctcp`, on real kernels: native DCTCP
//! at either end, classic ECN, none, and guests that negotiate for themselves.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uc_guest::DctcpState;
use uc_lab::netns::Namespace;
use uc_lab::tcp_info::TcpInfo;
use uc_lab::traffic::Traffic;
use uc_lab::{Lab, LivePorts, Plan, Ports, ShadowSample};
use uc_live::in_peace;

use crate::common::bench::{build, complete_checksums};
use crate::common::capture::{ACK, CWR, Capture, ECE, RST, SYN, Segment, segments};
use crate::common::{experiment, guest, live_with};

const TOOLS: [&str; 4] = ["tcpdump", "tshark", "ip", "ethtool"];
/// A switch that marks from 20 packets on, the rest of its memory far away.
const MARKS: &str = "rate = \"20Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"500us\"\n\
     queue = { kind = \"threshold\", limit = \"600kB\", mark = \"30kB\" }";
const STACKS: &str = "[stack.none]\ncongestion_control = \"reno\"\n\
     [stack.classic]\ncongestion_control = \"reno\"\necn = true\n\
     [stack.dctcp]\ncongestion_control = \"dctcp\"\necn = true\n\
     [stack.server]\ncongestion_control = \"reno\"";
const MARK_BYTES: u64 = 30_000;
const RATE_BYTES: u64 = 20_000_000 / 8;
const SECONDS: u64 = 3;
/// A capture may go on so long after a connection was asked: 50 ms of its round trips.
const WINDOWS_AFTER: usize = 5;
const NOT_ECT: u8 = 0;
const CE: u8 = 3;

/// One flow from a guest to the server, and what was seen of it.
struct Seen {
    /// Captures of the guest's interface, the server's, and between the guest's host and the
    /// network; read when they are asked for, which takes longer than all else.
    files: [PathBuf; 3],
    _folder: tempfile::TempDir,
    guest_address: SocketAddr,
    info: TcpInfo,
    shadow: Option<ShadowSample>,
    dctcp: Option<DctcpState>,
    delivered_bytes: u64,
    /// By the switch.
    marked_packets: u64,
    counters: std::collections::BTreeMap<String, u64>,
}

impl Seen {
    fn at_guest(&self) -> Vec<Segment> {
        segments(&self.files[0])
    }

    fn at_server(&self) -> Vec<Segment> {
        segments(&self.files[1])
    }

    fn at_uplink(&self) -> Vec<Segment> {
        segments(&self.files[2])
    }

    fn count(&self, counter: &str) -> u64 {
        self.counters.get(counter).copied().unwrap_or(0)
    }

    /// Payload delivered, as a share of what the link could have carried of frames.
    fn share_of_link(&self) -> f64 {
        self.delivered_bytes as f64 / (SECONDS * RATE_BYTES) as f64
    }
}

fn files_of(lab: &Lab, folder: &Path) -> [Capture; 3] {
    [
        Capture::start(&lab.wiring.guests[0], "eth0", folder),
        Capture::start(&lab.wiring.servers[0], "eth0", folder),
        Capture::start(&lab.wiring.hosts, "up0", folder),
    ]
}

/// Has the server acknowledge segments that wait while its application holds the socket as it does
/// others. By default Linux 6.7 and later may answer all that wait with one ACK, whatever their
/// marks, so that a DCTCP receiver's echo is not exact.
fn answer_each_segment_of_a_backlog(server: &Namespace) {
    let file = "/proc/sys/net/ipv4/tcp_backlog_ack_defer";
    let has_it = server.enter(|| Path::new(file).exists()).unwrap();
    if has_it {
        let zero = [("net.ipv4.tcp_backlog_ack_defer", "0".to_owned())];
        server.set_sysctls(&zero).unwrap();
    }
}

/// Sends for some seconds; `case` is the text of the case's keys and its only group.
fn observe(family: &str, case: &str) -> Seen {
    let network = format!("{MARKS}\nfamily = \"{family}\"");
    let (plan, lab): (Plan, Lab) = build(&experiment(1, &network, case, STACKS));
    let mut ports = LivePorts::default();
    lab.attach(&plan, &mut ports).unwrap();
    complete_checksums(&lab.wiring.guests[0], "eth0");
    complete_checksums(&lab.wiring.servers[0], "eth0");
    answer_each_segment_of_a_backlog(&lab.wiring.servers[0]);
    let folder = tempfile::tempdir().unwrap();
    let captures = files_of(&lab, folder.path());
    let traffic = Traffic::start(&plan, &lab.wiring, 1).unwrap();
    traffic.wait_connected(|| Ok(())).unwrap();
    std::thread::sleep(Duration::from_secs(SECONDS));
    traffic.check().unwrap();
    let flow = &traffic.flows()[0];
    let socket = flow.socket.as_fd();
    let (info, dctcp) = (
        TcpInfo::read(socket).unwrap(),
        lab.wiring.congestion.dctcp_state(socket).unwrap(),
    );
    let (shadow, delivered_bytes) = (ports.shadow(&flow.tuple), flow.delivered_bytes());
    let (guest_address, counters) = (flow.tuple.source, ports.counters().unwrap());
    drop(traffic);
    let files = Capture::finish(captures);
    let report = lab.finish().unwrap();
    let marked_packets = report.links[&report.bottlenecks[0]].marked_packets;
    Seen {
        files,
        _folder: folder,
        guest_address,
        info,
        shadow,
        dctcp,
        delivered_bytes,
        marked_packets,
        counters,
    }
}

/// Returns the segments that arrived: those not sent from `own_port`.
fn arrived(segments: &[Segment], own_port: u16) -> impl Iterator<Item = &Segment> {
    segments
        .iter()
        .filter(move |segment| segment.destination_port == own_port)
}

/// Asserts that a guest without ECN sees no ECN signal. The peer's offer on its SYN passes: a guest
/// that negotiates ECN may accept it.
fn assert_hears_no_ecn(segments: &[Segment], own_port: u16) {
    let mut count = 0;
    for segment in arrived(segments, own_port) {
        let is_offer = segment.has(SYN) && !segment.has(ACK);
        assert!(is_offer || !segment.has_any(ECE | CWR), "{segment:?}");
        assert!(is_offer || segment.ecn == NOT_ECT, "{segment:?}");
        count += 1;
    }
    assert!(count > 100, "only {count} segments arrived");
}

/// Data and their echoes where they cross one point.
#[derive(Debug, Default)]
struct Echoes {
    data_segments: u64,
    acks: u64,
    marked_bytes: u64,
    echoed_bytes: u64,
    largest_ack_bytes: u64,
    /// ACKs whose ECE is not what all of the bytes that they cover say.
    mixed_acks: u64,
    /// RFC 8257 §3.3 in real numbers, over what passes here, after each window.
    alphas: Alphas,
}

/// α after each window, whose number is in its place.
struct Alphas(Vec<f64>);

impl Default for Alphas {
    fn default() -> Self {
        Self(vec![1.0])
    }
}

impl std::fmt::Debug for Alphas {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{:.4} after {} windows",
            self.last(),
            self.0.len() - 1
        )
    }
}

impl Alphas {
    fn last(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    fn advance(&mut self, marked_part: f64) {
        self.0
            .push(self.last() + (marked_part - self.last()) / 16.0);
    }

    /// Returns `true` if `alpha` equals one of the last few values. A capture goes on a little
    /// after the other readings, and a fully marked window moves α by a sixteenth.
    fn ended_near(&self, alpha: f64) -> bool {
        let mut last = self.0.iter().rev().take(WINDOWS_AFTER);
        last.any(|ours| (ours - alpha).abs() < 0.01)
    }
}

fn echoes(segments: &[Segment], sender_port: u16) -> Echoes {
    let mut seen = Echoes::default();
    // ends of what was sent, by whether it was marked; the first SYN tells where numbers begin
    let mut sent: std::collections::VecDeque<(u32, u32, bool)> = std::collections::VecDeque::new();
    let (mut una, mut nxt, mut end): (Option<u32>, u32, u32) = (None, 0, 0);
    let (mut acked, mut marked) = (0.0, 0.0);
    for segment in segments {
        if segment.has(SYN) {
            if segment.source_port == sender_port {
                (una, nxt, end) = (
                    Some(segment.seq.wrapping_add(1)),
                    segment.seq.wrapping_add(1),
                    segment.seq.wrapping_add(1),
                );
            }
            continue;
        }
        // the end of the run; what the reset acknowledges is nobody's
        if segment.has(RST) {
            break;
        }
        let Some(from) = una else { continue };
        if segment.source_port == sender_port {
            let bytes = segment.payload_bytes;
            let last = segment.seq.wrapping_add(bytes);
            if bytes > 0 && last.wrapping_sub(nxt) as i32 > 0 {
                seen.data_segments += 1;
                seen.marked_bytes += if segment.ecn == CE {
                    u64::from(bytes)
                } else {
                    0
                };
                sent.push_back((last, bytes, segment.ecn == CE));
                nxt = last;
            }
            continue;
        }
        seen.acks += 1;
        let bytes = segment.ack.wrapping_sub(from) as i32;
        if bytes <= 0 {
            continue;
        }
        let echo = segment.has(ECE);
        let bytes = u64::from(bytes as u32);
        seen.largest_ack_bytes = seen.largest_ack_bytes.max(bytes);
        seen.echoed_bytes += if echo { bytes } else { 0 };
        let mut mixed = false;
        while sent
            .front()
            .is_some_and(|(last, ..)| segment.ack.wrapping_sub(*last) as i32 >= 0)
        {
            mixed |= sent.pop_front().is_some_and(|(.., was)| was != echo);
        }
        seen.mixed_acks += u64::from(mixed);
        una = Some(segment.ack);
        acked += bytes as f64;
        marked += if echo { bytes as f64 } else { 0.0 };
        if segment.ack.wrapping_sub(end) as i32 > 0 {
            seen.alphas.advance(marked / acked);
            (acked, marked, end) = (0.0, 0.0, nxt);
        }
    }
    seen
}

fn alpha(alpha_q30: u32) -> f64 {
    f64::from(alpha_q30) / f64::from(1 << 30)
}

fn shadow_alpha(seen: &Seen) -> f64 {
    alpha(seen.shadow.unwrap().alpha_q30.unwrap())
}

/// Counts the ACKs that waited for the delayed-ACK timer (40 ms on Linux) after the data they
/// cover.
fn delayed_acks(server: &[Segment], sender_port: u16) -> usize {
    let mut last_data_us = None;
    let mut late = 0;
    for segment in server {
        if segment.source_port == sender_port {
            last_data_us = Some(segment.at_us);
        } else if let Some(data_us) = last_data_us.take() {
            late += usize::from(segment.at_us - data_us >= 38_000);
        }
    }
    late
}

#[test]
fn live_a_native_dctcp_receiver_echoes_exactly_to_a_port_with_the_law() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        for family in ["ipv4", "ipv6"] {
            let case = format!(
                "receiver = \"dctcp\"\n{}",
                guest("virtual", "none", "law = \"dctcp\"")
            );
            let seen = observe(family, &case);
            let port = seen.guest_address.port();
            let server = seen.at_server();
            let (at_server, at_uplink) = (echoes(&server, port), echoes(&seen.at_uplink(), port));
            let late = delayed_acks(&server, port);
            println!(
                "{family}: {:.3} of the link, shadow α {:.4}, α of the ACKs {:.4}, {late} delayed, \
             {at_server:?}",
                seen.share_of_link(),
                shadow_alpha(&seen),
                at_uplink.alphas.last()
            );
            assert!(!seen.info.negotiated_ecn(), "the guest knows nothing");
            assert_hears_no_ecn(&seen.at_guest(), port);
            assert!(at_server.marked_bytes > 0, "{family}: {at_server:?}");
            // an ACK that fills a hole speaks of all that waited behind it, marked or not
            let resent = seen.info.total_retrans;
            assert!(
                at_server.mixed_acks <= u64::from(resent),
                "{family}: {resent} segments sent again, {at_server:?}"
            );
            let covered = at_server.largest_ack_bytes;
            assert!(
                at_server.echoed_bytes.abs_diff(at_server.marked_bytes) <= covered,
                "{family}: {at_server:?}"
            );
            assert!(
                at_uplink.alphas.ended_near(shadow_alpha(&seen)),
                "{family}: {} in the shadow, {at_uplink:?}",
                shadow_alpha(&seen)
            );
            assert!(
                late as u64 <= at_server.acks / 100,
                "{family}: {late} delayed ACKs"
            );
            assert!(
                seen.share_of_link() > 0.85,
                "{family}: {}",
                seen.share_of_link()
            );
        }
    });
}

#[test]
fn live_a_native_dctcp_sender_hears_what_a_guest_behind_a_port_was_marked() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        for family in ["ipv4", "ipv6"] {
            let case = format!(
                "receiver = \"none\"\nreceiver_law = \"dctcp\"\n{}",
                guest("native", "dctcp", "")
            );
            let seen = observe(family, &case);
            let port = seen.guest_address.port();
            // The port clears CE before the receiver sees it: count the ECE that the sender
            // receives.
            let heard = echoes(&seen.at_guest(), port);
            let state = seen.dctcp.unwrap();
            let marked = seen.marked_packets * u64::from(seen.info.snd_mss);
            println!(
                "{family}: {:.3} of the link, α {:.4}, {state:?}, {marked} bytes marked, {heard:?}",
                seen.share_of_link(),
                alpha(state.alpha_q30),
            );
            assert!(
                seen.info.negotiated_ecn(),
                "the sender is a DCTCP of its own"
            );
            assert_hears_no_ecn(&seen.at_server(), 5001);
            assert!(heard.echoed_bytes > 0 && state.reductions > 4, "{heard:?}");
            assert!(
                heard.alphas.ended_near(alpha(state.alpha_q30)),
                "{state:?}, {heard:?}"
            );
            assert!(
                state.marked_bytes <= heard.echoed_bytes,
                "{state:?}, {heard:?}"
            );
            // In sum what was marked, but for what was in the queue when the connection was reset.
            assert!(
                heard.echoed_bytes.abs_diff(marked) <= 2 * MARK_BYTES,
                "{marked} bytes marked, {heard:?}"
            );
            assert!(
                seen.share_of_link() > 0.85,
                "{family}: {}",
                seen.share_of_link()
            );
        }
    });
}

#[test]
fn live_a_classic_sender_hears_of_a_mark_until_it_says_that_it_reduced() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        let case = format!(
            "receiver = \"none\"\nreceiver_law = \"dctcp\"\n{}",
            guest("classic", "classic", "")
        );
        let seen = observe("ipv4", &case);
        let port = seen.guest_address.port();
        assert!(seen.info.negotiated_ecn(), "the sender speaks ECN itself");
        assert_hears_no_ecn(&seen.at_server(), 5001);
        let (mut echo_acks, mut cwrs, mut answered) = (0, 0, true);
        for segment in seen.at_guest().iter().filter(|segment| !segment.has(SYN)) {
            if segment.source_port != port {
                answered &= !segment.has(ECE);
                echo_acks += u64::from(segment.has(ECE));
            } else if segment.has(CWR) {
                assert!(!answered, "CWR that no echo asked for: {segment:?}");
                (cwrs, answered) = (cwrs + 1, true);
            }
        }
        println!(
            "{:.3} of the link, {echo_acks} ACKs with ECE, {cwrs} CWR",
            seen.share_of_link()
        );
        assert!(cwrs > 4, "{cwrs} reductions");
        assert!(echo_acks > cwrs, "the echo goes on until CWR has come");
        // A classic sender halves for each mark of 20 packets' queue; it may empty it, not more.
        assert!(seen.share_of_link() > 0.75, "{}", seen.share_of_link());
    });
}

#[test]
fn live_a_guest_that_negotiates_for_itself_is_passed_or_translated_as_the_policy_says() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        for (stack, family) in [("classic", "ipv4"), ("dctcp", "ipv6")] {
            let of = |guest_ecn: &str| {
                let law = "law = \"dctcp\"\nparameters = { guest_ecn = ";
                let group = guest("guest", stack, &format!("{law}\"{guest_ecn}\" }}"));
                observe(family, &format!("receiver = \"dctcp\"\n{group}"))
            };
            let passed = of("pass");
            assert!(passed.info.negotiated_ecn(), "{stack} {family}");
            assert_eq!(passed.shadow, None, "{stack} {family}");
            assert!(
                passed.count("port_guest_speaks_ecn") > 0,
                "{:?}",
                passed.counters
            );
            assert!(passed.share_of_link() > 0.75, "{}", passed.share_of_link());

            let seen = of("translate");
            let port = seen.guest_address.port();
            let uplink = seen.at_uplink();
            let at_uplink = echoes(&uplink, port);
            println!(
                "{stack} {family}: {:.3} of the link passed, {:.3} translated, α {:.4} and {:.4}",
                passed.share_of_link(),
                seen.share_of_link(),
                shadow_alpha(&seen),
                at_uplink.alphas.last()
            );
            assert!(
                !seen.info.negotiated_ecn(),
                "{stack} {family}: its offer was taken"
            );
            assert_eq!(
                seen.dctcp, None,
                "{stack} {family}: without ECN it is NewReno"
            );
            assert_hears_no_ecn(&seen.at_guest(), port);
            let ect = uplink.iter().filter(|segment| {
                segment.source_port == port && segment.payload_bytes > 0 && segment.ecn == NOT_ECT
            });
            assert_eq!(ect.count(), 0, "{stack} {family}: data without ECT");
            assert!(
                at_uplink.alphas.ended_near(shadow_alpha(&seen)),
                "{at_uplink:?}"
            );
            assert!(seen.share_of_link() > 0.85, "{}", seen.share_of_link());
        }
    });
}
