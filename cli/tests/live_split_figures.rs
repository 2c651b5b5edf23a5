//! Figures of docs/split.md: goodput over a lossy path and over two paths, and memory of 10,000
//! connections. What a stream without loss costs is measured by `make bench`.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen, setsockopt, sockopt};
use uc_lab::netns::Namespace;
use uc_live::in_peace;

use crate::common::bench::raw_socket;
use crate::common::ends::reset;
use crate::common::live_with;
use crate::common::routed::{Routed, ip, path};

const TOOLS: [&str; 2] = ["ip", "nft"];
const CHUNK_BYTES: usize = 256 * 1024;

/// Returns a listener that speaks this protocol of TCP's.
fn listener(at: &Namespace, address: SocketAddr, protocol: i32) -> TcpListener {
    let socket = raw_socket(at, libc::AF_INET, libc::SOCK_STREAM, protocol);
    setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
    listen(&socket, Backlog::new(4096).unwrap()).unwrap();
    TcpListener::from(socket)
}

/// Connects with this congestion control.
fn dial(from: &Namespace, to: SocketAddr, congestion_control: &str) -> TcpStream {
    let socket: OwnedFd = raw_socket(from, libc::AF_INET, libc::SOCK_STREAM, 0);
    setsockopt(&socket, sockopt::TcpCongestion, &congestion_control.into()).unwrap();
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
    TcpStream::from(socket)
}

/// Sends on each of these connections for a while. Returns what arrived on each after the first part
/// of it, in Mb/s.
fn goodputs(ends: Vec<(TcpStream, TcpStream)>, warm_up: Duration, time: Duration) -> Vec<f64> {
    let counts: Vec<Arc<AtomicU64>> = ends.iter().map(|_| Arc::default()).collect();
    let (mut threads, mut senders) = (Vec::new(), Vec::new());
    for ((mut sender, mut receiver), count) in ends.into_iter().zip(&counts) {
        let count = Arc::clone(count);
        senders.push(sender.try_clone().unwrap());
        threads.push(std::thread::spawn(move || {
            let chunk = vec![1; CHUNK_BYTES];
            while sender.write_all(&chunk).is_ok() {}
        }));
        threads.push(std::thread::spawn(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            while let Ok(bytes @ 1..) = receiver.read(&mut chunk) {
                count.fetch_add(bytes as u64, Relaxed);
            }
        }));
    }
    let read = || {
        counts
            .iter()
            .map(|count| count.load(Relaxed))
            .collect::<Vec<_>>()
    };
    std::thread::sleep(warm_up);
    let (began, before) = (Instant::now(), read());
    std::thread::sleep(time);
    let (after, elapsed) = (read(), began.elapsed().as_secs_f64());
    // What is still to be sent is given up.
    for sender in senders {
        sender.shutdown(Shutdown::Both).unwrap();
        reset(sender);
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let pairs = before.iter().zip(&after);
    pairs
        .map(|(before, after)| (after - before) as f64 * 8e-6 / elapsed)
        .collect()
}

/// Returns mean and standard error as text.
fn summary(values: &[f64]) -> String {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    format!(
        "{mean:.3} ± {:.3} (n = {n})",
        (squares / (n - 1.0) / n).sqrt()
    )
}

/// Bar: what a guest gets through the host's BBR should be that BBR's goodput; 0.9 leaves room for the
/// spread of two runs over random loss.
#[test]
fn live_newreno_guest_over_a_lossy_path_gets_the_goodput_of_the_hosts_bbr() {
    if !live_with(&TOOLS) {
        return;
    }
    let controls = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !controls.unwrap().contains("bbr") {
        uc_live::skip("congestion control bbr: load the module tcp_bbr");
        return;
    }
    in_peace(|| {
        let (mut ratios, mut plain) = (Vec::new(), Vec::new());
        for seed in 1..=3 {
            let lossy = || Some(path(50, 20, 10_000));
            let net = Routed::build(&[lossy(), lossy()], seed);
            let servers =
                [0, 1].map(|path| listener(&net.server, Routed::server(path, false, 80), 0));
            let to = servers
                .each_ref()
                .map(|server| server.local_addr().unwrap());
            let ends = |guest: TcpStream, server: &TcpListener| (guest, server.accept().unwrap().0);
            let alone = ends(dial(&net.guest, to[0], "reno"), &servers[0]);
            let (two, eight) = (Duration::from_secs(2), Duration::from_secs(8));
            plain.extend(goodputs(vec![alone], two, two * 2));
            let split = net.split(&["--congestion-control", "bbr"]);
            let both = vec![
                ends(dial(&net.guest, to[0], "reno"), &servers[0]),
                ends(dial(&net.host, to[1], "bbr"), &servers[1]),
            ];
            assert_eq!(net.total("split"), 1);
            let found = goodputs(both, two, eight);
            println!(
                "seed {seed}: split {:.1}, BBR {:.1}, NewReno {:.1} Mb/s",
                found[0],
                found[1],
                plain[plain.len() - 1]
            );
            ratios.push(found[0] / found[1]);
            split.end();
        }
        println!(
            "goodput of the split guest ÷ the host's BBR: {}",
            summary(&ratios)
        );
        println!(
            "goodput of the guest's own NewReno, Mb/s: {}",
            summary(&plain)
        );
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!(mean >= 0.9, "{ratios:?}");
    });
}

/// Bar: 0.85 of the two paths' sum, which is 100 Mb/s with headers.
#[test]
fn live_plain_guest_uses_two_paths_by_multipath_tcp() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        let mut found = Vec::new();
        for seed in 1..=3 {
            let net = Routed::build(&[Some(path(50, 5, 0)), Some(path(50, 5, 0))], seed);
            ip(&net.host, "mptcp limits set subflows 2 add_addr_accepted 2");
            ip(
                &net.server,
                "mptcp limits set subflows 2 add_addr_accepted 2",
            );
            ip(&net.server, "mptcp endpoint add 10.3.0.2 dev eth1 signal");
            // Further paths end at other addresses of the server.
            let any = SocketAddr::from(([0, 0, 0, 0], 80));
            let server = listener(&net.server, any, libc::IPPROTO_MPTCP);
            let split = net.split(&["--mptcp"]);
            let guest = dial(&net.guest, Routed::server(0, false, 80), "reno");
            let (accepted, peer) = server.accept().unwrap();
            assert_eq!(peer.ip(), Routed::guest(false, 0).ip());
            let both = vec![(guest, accepted)];
            found.extend(goodputs(
                both,
                Duration::from_secs(2),
                Duration::from_secs(5),
            ));
            assert_eq!(net.total("multipath"), 1);
            split.end();
        }
        println!(
            "a plain guest over two paths of 50 Mb/s, Mb/s: {}",
            summary(&found)
        );
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!(mean >= 85.0, "{found:?}");
    });
}

/// Returns the first number after a word in a file.
fn number(text: &str, word: &str) -> u64 {
    let after = text
        .split_once(word)
        .unwrap_or_else(|| panic!("no {word} in {text}"))
        .1;
    after.split_whitespace().next().unwrap().parse().unwrap()
}

/// Bar: 1 GB for 10,000 connections, so 100 kB for each: resident memory, buffers, and all kernel structures, also those
/// of the guest's and the server's sockets, which are as many as the host's.
#[test]
fn live_ten_thousand_connections_take_less_than_a_gigabyte() {
    if !live_with(&TOOLS) {
        return;
    }
    // This process holds both ends. Where it may not raise its limit of descriptors, they decide.
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = 21_000;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_ok();
    let limit = match raised || setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        true if raised => wanted,
        true => hard,
        false => soft,
    };
    let connections = 10_000.min((limit as usize - 600) / 2);
    let net = Routed::build(&[None], 1);
    let server = listener(&net.server, Routed::server(0, false, 80), 0);
    let to = server.local_addr().unwrap();
    let all = connections.to_string();
    let split = net.split(&["--connections-max", &all, "--guest-max", &all]);
    let read = |file: &str| std::fs::read_to_string(file).unwrap();
    let resident = || number(&read(&format!("/proc/{}/status", split.id())), "VmRSS:") << 10;
    let slab = || number(&read("/proc/meminfo"), "Slab:") << 10;
    let buffers = || {
        number(
            &net.host.enter(|| read("/proc/net/sockstat")).unwrap(),
            " mem ",
        ) * 4096
    };
    let before = (resident(), slab(), buffers());
    let ends: Vec<(TcpStream, TcpStream)> = net
        .guest
        .enter(|| {
            let one = |_| {
                let mut guest = TcpStream::connect(to).unwrap();
                let (mut accepted, _) = server.accept().unwrap();
                guest.write_all(b"?").unwrap();
                accepted.read_exact(&mut [0]).unwrap();
                accepted.write_all(b"!").unwrap();
                guest.read_exact(&mut [0]).unwrap();
                (guest, accepted)
            };
            (0..connections).map(one).collect()
        })
        .unwrap();
    assert_eq!(net.total("open"), connections as u64);
    let after = (resident(), slab(), buffers());
    let pipes = std::fs::read_dir(format!("/proc/{}/fd", split.id()))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| link.to_string_lossy().starts_with("pipe:"))
        .count();
    let used = [after.0, after.1.saturating_sub(before.1), after.2];
    println!(
        "{connections} connections: {} bytes resident ({} before), {} of kernel structures with both ends' \
         own, {} of buffers ({} before), {pipes} ends of pipes",
        used[0], before.0, used[1], used[2], before.2
    );
    assert!(
        used.iter().sum::<u64>() < 100_000 * connections as u64,
        "{used:?}"
    );
    drop(ends);
    split.end();
}
