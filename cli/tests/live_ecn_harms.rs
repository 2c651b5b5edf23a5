//! A server that resets SYNs that ask for ECN, a path that drops ECT, and one that marks everything: the
//! guest's connections live on, the next ones go without ECN, and `uc explain` says why. And answers of a
//! guest: none takes a round trip more than without a port.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::by_hand::packets;
use crate::common::ends::{PATIENCE, listen};
use crate::common::live_with;
use crate::common::routed::{Routed, path};
use crate::common::sandbox::Sandbox;
use crate::common::uc::success;

/// What a transfer sends; at 20 ms it takes five round trips.
const BYTES: usize = 300_000;
const SERVER_PORT: u16 = 80;
/// By how much longer than the next transfer the first one to an address may take: 0.9 to 1.0 s, and 0.6 s
/// more where the guest's timer has to fire. It has to if the SACK for the tail loss probe takes less time
/// than the handshake took, by chance: then RACK ignores it (RFC 8985 §6.2, step 2).
const LEARNING: Duration = Duration::from_secs(2);

/// Puts a rule into a chain of this hook and priority in the server's namespace.
fn rule(net: &Routed, hook: &str, text: &str) {
    let chain = format!("add chain ip t c {{ type filter hook {hook}; policy accept; }}");
    let mut nft = net.server.command("nft");
    nft.arg(format!("add table ip t; {chain}; add rule ip t c {text}"));
    success(nft);
}

/// Reads each connection to its end.
fn serve(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drain(stream));
        }
    });
}

fn drain(mut stream: TcpStream) {
    let mut buffer = [0; 65_536];
    while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
}

fn connect(net: &Routed) -> std::io::Result<TcpStream> {
    let to = Routed::server(0, false, SERVER_PORT);
    net.guest.enter(move || TcpStream::connect(to)).unwrap()
}

/// Sends [`BYTES`] and waits until the server has closed, which it does after all of them. Returns the
/// time and the guest's address.
fn transfer(net: &Routed) -> (Duration, SocketAddr) {
    let began = Instant::now();
    let mut stream = connect(net).unwrap();
    stream.write_all(&vec![0; BYTES]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut end = [0; 1];
    assert_eq!(stream.read(&mut end).unwrap(), 0);
    (began.elapsed(), stream.local_addr().unwrap())
}

/// Builds the network, of a round trip of 20 ms, with a server that reads all.
fn build() -> Option<(Routed, Sandbox)> {
    if !live_with(&["ip", "nft"]) {
        return None;
    }
    let net = Routed::build(&[Some(path(1_000, 10, 0))], 1);
    net.server
        .set_sysctls(&[("net.ipv4.tcp_ecn", "1".into())])
        .unwrap();
    net.guest
        .set_sysctls(&[("net.ipv4.tcp_ecn", "0".into())])
        .unwrap();
    Some((net, Sandbox::new()))
}

#[test]
fn live_server_that_resets_ecn_syns_refuses_one_connection_an_hour() {
    let Some((net, sandbox)) = build() else {
        return;
    };
    serve(listen(&net.server, Routed::server(0, false, SERVER_PORT)));
    let asks = "tcp flags & (syn | ack | ecn | cwr) == syn | ecn | cwr";
    rule(
        &net,
        "input priority 0",
        &format!("{asks} reject with tcp reset"),
    );
    for law in ["ecn", "dctcp", "coupled"] {
        success(sandbox.uc(&net.host, &["attach", "--law", law, "port0"]));
        let refused = (0..4).filter(|_| {
            connect(&net).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        });
        assert_eq!(refused.count(), 1, "law {law}");
        let text = success(sandbox.uc(&net.host, &["flows", "--json"]));
        let avoided = packets(&serde_json::from_str(&text).unwrap(), "ecn_avoided");
        assert_eq!(avoided > 0, law != "coupled", "law {law}: {avoided}");
        success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
    }
}

/// Makes three transfers under each law; the second and third must take as long as without a port, and the
/// first no more than [`LEARNING`] longer.
fn learns(rules: &str, why: &str) {
    let Some((net, sandbox)) = build() else {
        return;
    };
    serve(listen(&net.server, Routed::server(0, false, SERVER_PORT)));
    rule(&net, "prerouting priority -300", rules);
    let plain = (0..3).map(|_| transfer(&net).0).min().unwrap();
    for law in ["ecn", "dctcp", "coupled"] {
        success(sandbox.uc(&net.host, &["attach", "--law", law, "port0"]));
        let (first, guest) = transfer(&net);
        let history = success(sandbox.uc(&net.host, &["explain", "port0", &guest.to_string()]));
        assert!(history.contains(why), "law {law}: {history}");
        let next = (0..3).map(|_| transfer(&net).0).min().unwrap();
        println!("law {law}: {plain:?} without a port, {first:?}, then {next:?}");
        assert!(
            first < plain + LEARNING,
            "law {law}: {first:?}, not {plain:?}"
        );
        assert!(
            next < plain + plain / 2,
            "law {law}: {next:?}, not {plain:?}"
        );
        success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
    }
}

#[test]
fn live_path_that_drops_ect_delays_one_transfer() {
    learns("ip ecn ect0 drop", "packets with ECN were lost");
}

#[test]
fn live_path_that_marks_everything_delays_one_transfer() {
    learns(
        "ip ecn ect0 ip ecn set ce",
        "all packets with ECN were marked",
    );
}

/// Times of answers of 1 to 20 segments, in round trips.
fn answers(net: &Routed) -> Vec<u32> {
    const ROUND_TRIP_MS: u32 = 20;
    let asked = Routed::guest(false, SERVER_PORT);
    (1..=20u32)
        .map(|segments| {
            let mut least = u32::MAX;
            for _ in 0..3 {
                let mut stream = net
                    .server
                    .enter(move || TcpStream::connect(asked).unwrap())
                    .unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let began = Instant::now();
                stream.write_all(&segments.to_be_bytes()).unwrap();
                let mut answer = vec![0; 1_448 * segments as usize];
                stream.read_exact(&mut answer).unwrap();
                least = least.min(began.elapsed().as_millis() as u32);
            }
            (least + ROUND_TRIP_MS / 2) / ROUND_TRIP_MS
        })
        .collect()
}

/// A guest that answers each request with as many segments as it asks for.
fn answer_requests(listener: TcpListener) {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0; 4];
                stream.set_nodelay(true).unwrap();
                while stream.read_exact(&mut request).is_ok() {
                    let bytes = 1_448 * u32::from_be_bytes(request) as usize;
                    stream.write_all(&vec![0; bytes]).unwrap();
                }
            });
        }
    });
}

#[test]
fn live_answers_take_no_round_trip_more_than_without_a_port() {
    let Some((net, sandbox)) = build() else {
        return;
    };
    answer_requests(listen(&net.guest, Routed::guest(false, SERVER_PORT)));
    for wscale in [0, 4, 7, 10, 12] {
        let memory = format!("4096 131072 {}", 65_535u64 << wscale);
        net.server
            .set_sysctls(&[("net.ipv4.tcp_rmem", memory)])
            .unwrap();
        let plain = answers(&net);
        for law in [&["ecn"][..], &["dctcp"], &["delay", "--target", "60ms"]] {
            let attach = [&["attach", "port0", "--law"], law].concat();
            success(sandbox.uc(&net.host, &attach));
            let with = answers(&net);
            let worse = plain.iter().zip(&with).filter(|(plain, with)| with > plain);
            assert_eq!(
                worse.count(),
                0,
                "scale {wscale}, {law:?}: {with:?}, not {plain:?}"
            );
            success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
        }
    }
}
