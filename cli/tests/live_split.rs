//! `uc split`: bytes, ends and resets of split connections pass as on one connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, bind, connect, setsockopt, sockopt};
use uc_guest::Dctcp;
use uc_lab::pattern::Pattern;

use crate::common::bench::{raw_socket, wait_until};
use crate::common::by_hand;
use crate::common::ends::{PATIENCE, is_reset, listen, open, receive, reset, send};
use crate::common::routed::{Routed, ip, path};
use crate::common::sandbox::Sandbox;
use crate::common::transfer::{End, Transfer};
use crate::common::uc::success;
use crate::common::{live_with, live_with_controls};

const TOOLS: [&str; 2] = ["ip", "nft"];
#[test]
fn live_bytes_and_half_closes_pass_both_ways_under_loss() {
    if !live_with(&TOOLS) {
        return;
    }
    for is_ipv6 in [false, true] {
        let net = Routed::build(&[Some(path(50, 5, 10_000))], 1);
        let split = net.split(&["--congestion-control", "cubic"]);
        let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
        // Each end sends after the other's stream has ended, then before.
        for guest_first in [true, false] {
            let (guest, server) = open(&net.guest, &listener);
            let (first, second) = if guest_first {
                (&guest, &server)
            } else {
                (&server, &guest)
            };
            std::thread::scope(|scope| {
                scope.spawn(|| send(first, 3_000_000));
                assert_eq!(receive(second), 3_000_000);
            });
            std::thread::scope(|scope| {
                scope.spawn(|| send(second, 2_000_000));
                assert_eq!(receive(first), 2_000_000);
            });
        }
        wait_until("both have ended in order", || net.total("orderly") == 2);
        assert_eq!((net.total("split"), net.total("reset")), (2, 0));
        assert_eq!(net.total("bytes_to_far_ends"), 5_000_000);
        assert_eq!(net.total("bytes_to_guests"), 5_000_000);
        split.end();
    }
}

#[test]
fn live_resets_pass_both_ways_and_connect_errors_become_resets() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&[]);
    for is_ipv6 in [false, true] {
        let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
        let (guest, server) = open(&net.guest, &listener);
        reset(guest);
        is_reset(&server, PATIENCE, "the server");
        let (guest, server) = open(&net.guest, &listener);
        reset(server);
        is_reset(&guest, PATIENCE, "the guest");
        // Nobody listens there.
        let to = Routed::server(0, is_ipv6, 81);
        let guest = net.guest.enter(|| TcpStream::connect(to).unwrap()).unwrap();
        is_reset(&guest, PATIENCE, "the guest");
    }
    // The host has no route there.
    let guest = net
        .guest
        .enter(|| TcpStream::connect("10.99.0.1:80").unwrap())
        .unwrap();
    is_reset(&guest, PATIENCE, "the guest");
    wait_until("all are counted", || net.total("open") == 0);
    assert_eq!((net.total("reset"), net.total("refused")), (4, 3));
    split.end();
}

/// Returns the resident memory of a process in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn live_a_server_that_does_not_read_stops_the_guest_and_memory_stays_bounded() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&[]);
    let listener = listen(&net.server, Routed::server(0, false, 80));
    let (mut guest, server) = open(&net.guest, &listener);
    guest.set_nonblocking(true).unwrap();
    let pattern = Pattern::default();
    let (mut sent, mut progress) = (0_u64, Instant::now());
    while progress.elapsed() < Duration::from_secs(1) {
        match guest.write(&pattern.chunk(sent)[..65_536]) {
            Ok(bytes) => {
                sent += bytes as u64;
                progress = Instant::now();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert!(sent < 64 << 20, "the guest is not stopped");
    }
    let resident = resident_bytes(split.id());
    println!("the guest was stopped after {sent} bytes; uc has {resident} bytes of memory");
    // The guest's send buffer is at most 16 MiB, the server's receive buffer starts with 128 KiB, and the
    // host holds a receive buffer of 2 MiB, a pipe of 1 MiB and 1 MiB of unsent data, in the kernel.
    assert!(sent < 20 << 20, "{sent}");
    assert!(resident < 32 << 20, "{resident}");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| receive(&server));
        std::thread::sleep(Duration::from_millis(200));
        guest.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reader.join().unwrap(), sent);
    });
    split.end();
}

#[test]
fn live_connections_that_began_before_are_not_touched_by_start_end_and_kill() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[Some(path(20, 1, 0))], 1);
    let end = |namespace, address| End { namespace, address };
    let earlier = Transfer::start(
        end(&net.guest, Routed::guest(false, 40_000)),
        end(&net.server, Routed::server(0, false, 5001)),
    );
    earlier.reach(100_000);
    let split = net.split(&[]);
    earlier.reach(earlier.delivered_bytes() + 100_000);
    split.end();
    earlier.reach(earlier.delivered_bytes() + 100_000);
    let split = net.split(&[]);
    drop(split);
    earlier.reach(earlier.delivered_bytes() + 100_000);
    assert!(earlier.finish() > 400_000);
    let again = net.split(&[]);
    assert_eq!(net.total("split"), 0);
    again.end();
}

/// Returns the namespace's packet filter and rules of routing, for comparison.
fn rules(net: &Routed) -> [String; 3] {
    let run = |program: &str, arguments: &[&str]| {
        let mut command = net.host.command(program);
        command.args(arguments);
        success(command)
    };
    [
        run("nft", &["list", "ruleset"]),
        run("ip", &["rule"]),
        run("ip", &["-6", "rule"]),
    ]
}

#[test]
fn live_a_kill_resets_split_connections_and_what_it_leaves_is_tidied() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let before = rules(&net);
    let listener = listen(&net.server, Routed::server(0, false, 80));
    let split = net.split(&[]);
    let opened: Vec<_> = (0..3).map(|_| open(&net.guest, &listener)).collect();
    let [busy, half, idle] = opened.as_slice() else {
        panic!("three");
    };
    let within = Duration::from_secs(1);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (mut stream, chunk) = (&busy.0, vec![1; 65_536]);
            loop {
                if let Err(error) = stream.write_all(&chunk) {
                    break error.kind();
                }
            }
        });
        (&busy.1).read_exact(&mut [0; 100_000]).unwrap();
        half.0.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&half.1).read(&mut [0]).unwrap(), 0);
        drop(split);
        is_reset(&busy.1, within, "the server that receives");
        // The kernel reports the reset to one call of an end, here the guest's write.
        assert_eq!(sender.join().unwrap(), ErrorKind::ConnectionReset);
        is_reset(&idle.0, within, "the guest of the idle connection");
        is_reset(&idle.1, within, "its server");
        is_reset(&half.0, within, "the guest that has closed its direction");
    });
    // Its server has read the end of the stream already; a write shows that it must not answer.
    wait_until("a write fails", || (&half.1).write_all(b"x").is_err());
    // New connections pass unsplit.
    let (guest, server) = open(&net.guest, &listener);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&guest, 1_000_000));
        assert_eq!(receive(&server), 1_000_000);
    });
    assert_ne!(rules(&net), before);
    let told = success(net.uc(&["split", "--clean"]));
    assert!(told.contains("removed"), "{told}");
    assert_eq!(rules(&net), before);
    let told = success(net.uc(&["split", "--clean"]));
    assert!(told.contains("nothing"), "{told}");
    // The next start tidies as well, and an orderly end leaves nothing.
    drop(net.split(&[]));
    let again = net.split(&["--tcp-ports", "80,8000-8999"]);
    open(&net.guest, &listener);
    assert_eq!(net.total("split"), 1);
    again.end();
    assert_eq!(rules(&net), before);
}

#[test]
fn live_only_the_named_tcp_ports_are_split_and_a_drain_waits_for_their_end() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&["--tcp-ports", "80", "--drain", "20"]);
    let [other, named] = [81, 80].map(|port| listen(&net.server, Routed::server(0, false, port)));
    let plain = open(&net.guest, &other);
    assert_eq!(net.total("split"), 0);
    let (guest, server) = open(&net.guest, &named);
    assert_eq!(net.total("split"), 1);
    let pid = nix::unistd::Pid::from_raw(split.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    // New connections pass unsplit meanwhile.
    let mut seen = 1;
    wait_until("a new one is not split", || {
        let _new = open(&net.guest, &named);
        let before = std::mem::replace(&mut seen, net.total("split"));
        seen == before
    });
    std::thread::scope(|scope| {
        scope.spawn(|| send(&guest, 1_000_000));
        assert_eq!(receive(&server), 1_000_000);
    });
    send(&server, 10);
    assert_eq!(receive(&guest), 10);
    assert_eq!(split.status(), Some(0));
    send(&plain.0, 10);
    assert_eq!(receive(&plain.1), 10);
}

#[test]
fn live_the_listener_refuses_processes_of_the_host() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&[]);
    let text = net
        .host
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    let text = text.unwrap();
    let listener = text.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, state) = (words.next()?, words.next()?, words.next()?);
        let port = local.strip_prefix("0100007F:")?;
        (state == "0A").then(|| u16::from_str_radix(port, 16).unwrap())
    });
    let to = SocketAddr::from(([127, 0, 0, 1], listener.unwrap()));
    let local = net.host.enter(|| TcpStream::connect(to).unwrap()).unwrap();
    is_reset(&local, PATIENCE, "the host's process");
    split.end();
}

#[test]
fn live_translated_addresses_stay_translated_with_and_without_a_split() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let masquerade = "add table ip nat; \
                      add chain ip nat post { type nat hook postrouting priority 100 ; }; \
                      add rule ip nat post oifname up0 masquerade; \
                      add table inet filter; \
                      add chain inet filter in { type filter hook input priority 0 ; }; \
                      add rule inet filter in iifname up0 ct state established accept; \
                      add rule inet filter in iifname up0 meta l4proto tcp drop";
    net.nft(masquerade);
    let listener = listen(&net.server, Routed::server(0, false, 80));
    let transfer = || {
        let to = listener.local_addr().unwrap();
        let guest = net.guest.enter(|| TcpStream::connect(to).unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "10.2.0.1", "the host's address");
        for (from, to) in [(&guest, &server), (&server, &guest)] {
            std::thread::scope(|scope| {
                scope.spawn(|| send(from, 1_000_000));
                assert_eq!(receive(to), 1_000_000);
            });
        }
    };
    transfer();
    let split = net.split(&[]);
    transfer();
    assert_eq!(net.total("split"), 1);
    drop(split);
    transfer();
    success(net.uc(&["split", "--clean"]));
}

#[test]
fn live_port_with_a_law_can_be_split_and_explain_names_the_caveat() {
    if !live_with(&TOOLS) || !live_with(&by_hand::TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let sandbox = Sandbox::new();
    let uc = |arguments: &[&str]| sandbox.uc(&net.host, arguments);
    success(uc(&["attach", "port0", "--law", "ecn", "--strict"]));
    let listener = listen(&net.server, Routed::server(0, false, 80));
    let split = net.split(&["--congestion-control", "cubic"]);
    let (guest, server) = open(&net.guest, &listener);
    (&guest).write_all(b"?").unwrap();
    (&server).read_exact(&mut [0]).unwrap();
    let told = success(uc(&["explain", "port0"]));
    assert!(told.contains("is this host's, not the far end's"), "{told}");
    let told = success(uc(&["explain", "port0", "--json"]));
    let story: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(story["split"], true, "{story}");
    assert_eq!(story["flow"]["stage"], "translating", "{story}");
    for (from, to) in [(&server, &guest), (&guest, &server)] {
        std::thread::scope(|scope| {
            scope.spawn(|| send(from, 1_000_000));
            assert_eq!(receive(to), 1_000_000);
        });
    }
    split.end();
    success(uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_guest_at_its_quota_gets_resets_and_leaves_room_for_others() {
    if !live_with(&TOOLS) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&["--connections-max", "4", "--guest-max", "2"]);
    let [red, blue] = [false, true].map(|is_ipv6| Routed::server(0, is_ipv6, 80));
    let [red, blue] = [red, blue].map(|address| listen(&net.server, address));
    let mut held = vec![open(&net.guest, &red), open(&net.guest, &red)];
    let to = red.local_addr().unwrap();
    let third = net.guest.enter(|| TcpStream::connect(to).unwrap()).unwrap();
    is_reset(&third, PATIENCE, "the third of the first guest");
    held.push(open(&net.guest, &blue));
    assert_eq!((net.total("open"), net.total("too_many")), (3, 1));
    reset(held.swap_remove(0).0);
    wait_until("its place is free", || net.total("open") == 2);
    held.push(open(&net.guest, &red));
    split.end();
}

#[test]
fn live_outer_connections_run_the_named_congestion_control_also_one_in_bpf() {
    if !live_with(&["ip", "nft", "ss"]) || !live_with_controls() {
        return;
    }
    let dctcp = Dctcp::register_private().unwrap();
    let net = Routed::build(&[None], 1);
    let listener = listen(&net.server, Routed::server(0, false, 80));
    for name in ["cubic", "reno", dctcp.name()] {
        // DCTCP falls back to NewReno unless the listener is DCTCP's, too.
        setsockopt(&listener, sockopt::TcpCongestion, &name.into()).unwrap();
        let split = net.split(&["--congestion-control", name]);
        let ends = open(&net.guest, &listener);
        let mut ss = net.host.command("ss");
        ss.args(["-tinH", "state", "established", "src", "10.1.0.2"]);
        let outer = success(ss);
        let found = outer.split_whitespace().any(|word| word == name);
        assert!(found, "{name}: {outer}");
        drop(ends);
        split.end();
    }
}

#[test]
fn live_connections_from_forged_addresses_are_not_answered_by_the_host() {
    if !live_with(&["ip", "nft", "ss"]) {
        return;
    }
    for (is_ipv6, forged) in [(false, "10.99.0.1"), (true, "fd99::1")] {
        let net = Routed::build(&[None], 1);
        // Otherwise the kernel itself may drop packets of forged addresses.
        let off = [
            ("net.ipv4.conf.all.rp_filter", "0".into()),
            ("net.ipv4.conf.port0.rp_filter", "0".into()),
        ];
        net.host.set_sysctls(&off).unwrap();
        let split = net.split(&[]);
        let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
        // An IPv6 address can be bound to at once only without the search for duplicates.
        let nodad = if is_ipv6 { " nodad" } else { "" };
        ip(&net.guest, &format!("address add {forged} dev lo{nodad}"));
        // Otherwise the host tells the server that nobody is there.
        ip(&net.host, &format!("route add blackhole {forged}"));
        let address = SocketAddr::new(forged.parse().unwrap(), 0);
        let family = if is_ipv6 {
            libc::AF_INET6
        } else {
            libc::AF_INET
        };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let socket = raw_socket(&net.guest, family, kind, 0);
        bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
        let to = SockaddrStorage::from(listener.local_addr().unwrap());
        assert_eq!(connect(socket.as_raw_fd(), &to), Err(Errno::EINPROGRESS));
        // It passes unsplit, so the server itself answers, to where nobody is.
        wait_until("the server sees the forged address", || {
            let mut half_open = net.server.command("ss");
            half_open.args(["-Htn", "state", "syn-recv"]);
            success(half_open).contains(forged)
        });
        let (guest, server) = open(&net.guest, &listener);
        assert_eq!(
            server.peer_addr().unwrap().ip(),
            guest.local_addr().unwrap().ip()
        );
        assert_eq!(net.total("split"), 1);
        split.end();
    }
}
