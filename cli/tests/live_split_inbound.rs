//! `uc split --inbound`: connections that others open to a guest are split, too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::bench::wait_until;
use crate::common::ends::{PATIENCE, is_reset, listen, open, receive, reset, send};
use crate::common::live_with;
use crate::common::routed::{Routed, path};
use crate::common::uc::success;

#[test]
fn live_connections_to_guests_pass_bytes_and_ends_under_loss() {
    if !live_with(&["ip", "nft", "ss"]) {
        return;
    }
    let net = Routed::build(&[Some(path(50, 5, 10_000))], 1);
    let split = net.split(&[
        "--inbound",
        "--tcp-ports",
        "80-81",
        "--congestion-control",
        "cubic",
    ]);
    for is_ipv6 in [false, true] {
        let listener = listen(&net.guest, Routed::guest(is_ipv6, 80));
        let (far, guest) = open(&net.server, &listener);
        if !is_ipv6 {
            let mut ss = net.host.command("ss");
            ss.args(["-tinH", "state", "established", "src", "10.1.0.2"]);
            let outer = success(ss);
            assert!(outer.contains(" cubic "), "{outer}");
        }
        for (from, to) in [(&guest, &far), (&far, &guest)] {
            std::thread::scope(|scope| {
                scope.spawn(|| send(from, 2_000_000));
                assert_eq!(receive(to), 2_000_000);
            });
        }
    }
    wait_until("both have ended in order", || net.total("orderly") == 2);
    assert_eq!((net.total("split"), net.total("reset")), (2, 0));
    split.end();
}

/// Without loss: nobody repeats a reset that is lost.
#[test]
fn live_resets_pass_both_ways_and_guests_connections_are_split_too() {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&["--inbound", "--tcp-ports", "80-81"]);
    for is_ipv6 in [false, true] {
        let listener = listen(&net.guest, Routed::guest(is_ipv6, 80));
        let (far, guest) = open(&net.server, &listener);
        reset(guest);
        is_reset(&far, PATIENCE, "the far end");
        let (far, guest) = open(&net.server, &listener);
        reset(far);
        is_reset(&guest, PATIENCE, "the guest");
        // No process of the guest listens there.
        let to = Routed::guest(is_ipv6, 81);
        let far = net
            .server
            .enter(|| TcpStream::connect(to).unwrap())
            .unwrap();
        is_reset(&far, PATIENCE, "the far end");
    }
    wait_until("all have ended", || net.total("open") == 0);
    let ended = ["split", "orderly", "reset", "refused"].map(|name| net.total(name));
    assert_eq!(ended, [6, 0, 4, 2]);
    // Connections of the guest are split as without the option.
    let listener = listen(&net.server, Routed::server(0, false, 80));
    open(&net.guest, &listener);
    assert_eq!(net.total("split"), 7);
    split.end();
}

#[test]
fn live_kill_resets_connections_to_guests_and_new_ones_pass_unsplit() {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let listener = listen(&net.guest, Routed::guest(false, 80));
    let earlier = open(&net.server, &listener);
    let split = net.split(&["--inbound"]);
    let (far, guest) = open(&net.server, &listener);
    assert_eq!(net.total("split"), 1);
    drop(split);
    is_reset(&far, Duration::from_secs(1), "the far end");
    is_reset(&guest, Duration::from_secs(1), "the guest");
    let later = open(&net.server, &listener);
    for (far, guest) in [&earlier, &later] {
        (&mut &*guest).write_all(b"?").unwrap();
        (&mut &*far).read_exact(&mut [0]).unwrap();
    }
    success(net.uc(&["split", "--clean"]));
}
