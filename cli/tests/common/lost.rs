//! Connections of a guest that lose their only window, and how the guest recovers.

use std::net::TcpListener;
use std::thread;

use uc_lab::netns::Namespace;

use super::bench::tcp_counter;
use super::ends::{open, receive, send};
use super::routed::{Routed, ip};
use super::uc::success;

/// Number of connections that each lose their only window; `SEGMENTS`: number of segments of such a window, which leave
/// at once.
pub const CONNECTIONS: u64 = 10;
pub const SEGMENTS: u64 = 8;
/// Size of a full packet, in bytes.
pub const PACKET_BYTES: u64 = 1500;

/// Has the guest's segments leave one by one, so that the host can drop single ones.
pub fn send_singly(net: &Routed) {
    ip(&net.guest, "link set eth0 gso_max_segs 1");
}

/// Makes the host drop the next [`SEGMENTS`] full packets of the guest, and no other packet.
pub fn lose_the_next_window(net: &Routed) {
    let quota = SEGMENTS * PACKET_BYTES + 1;
    let mut nft = net.host.command("nft");
    nft.arg(format!(
        "add table inet loss; \
         add chain inet loss forward {{ type filter hook forward priority 0 ; }}; \
         flush chain inet loss forward; \
         add rule inet loss forward iifname port0 meta length > 1000 quota until {quota} bytes drop"
    ));
    success(nft);
}

/// Makes the host drop all full packets of the guest, and no other packet.
pub fn lose_full_packets(net: &Routed) {
    let mut nft = net.host.command("nft");
    nft.arg(
        "add table inet loss; \
         add chain inet loss forward { type filter hook forward priority 0 ; }; \
         add rule inet loss forward iifname port0 meta length > 1000 drop",
    );
    success(nft);
}

/// Makes the host drop no packet any more.
pub fn lose_nothing(net: &Routed) {
    let mut nft = net.host.command("nft");
    nft.arg("delete table inet loss");
    success(nft);
}

/// Returns how many bytes a connection to this listener has in its only window.
pub fn window_bytes(listener: &TcpListener) -> u64 {
    let is_ipv6 = listener.local_addr().unwrap().is_ipv6();
    SEGMENTS * (PACKET_BYTES - if is_ipv6 { 60 } else { 40 })
}

/// Opens connections one after the other, each of which loses its only window; all bytes arrive, once.
/// Returns how often the guest's timer expired, and how often it began a fast recovery.
pub fn transfers(net: &Routed, listener: &TcpListener) -> (u64, u64) {
    let bytes = window_bytes(listener);
    let before = recoveries(&net.guest);
    for _ in 0..CONNECTIONS {
        let (guest, server) = open(&net.guest, listener);
        lose_the_next_window(net);
        thread::scope(|scope| {
            scope.spawn(|| send(&guest, bytes));
            assert_eq!(receive(&server), bytes);
        });
    }
    let after = recoveries(&net.guest);
    (after.0 - before.0, after.1 - before.1)
}

/// Returns the numbers of a namespace's timeouts and of its fast recoveries without SACK.
fn recoveries(namespace: &Namespace) -> (u64, u64) {
    (
        tcp_counter(namespace, "TCPTimeouts"),
        tcp_counter(namespace, "TCPRenoRecovery"),
    )
}
