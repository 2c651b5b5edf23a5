//! Two guests that send to a server, one of them through the port under test.

use std::net::SocketAddr;

use uc_lab::netns::Namespace;

use crate::common::agent::ip;
use crate::common::transfer::{End, Transfer};
use crate::common::uc::success;

pub const PORT: &str = "port0";
/// The port without programs.
const OTHER: &str = "other0";
/// Number of flows of each guest.
pub const FLOWS: u16 = 100;
/// Rate of each flow in bytes per second: a segment about every 29 ms.
pub const PACE_BYTES_PER_S: u32 = 50_000;

/// A guest behind a port with programs, another behind a port without, and a server, on one bridge.
pub struct Network {
    guests: [Namespace; 2],
    pub host: Namespace,
    server: Namespace,
}

impl Network {
    pub fn new() -> Self {
        let [guest, other, host, server] =
            ["guest", "other", "host", "server"].map(|name| Namespace::new(name).unwrap());
        ip(&host, "link add br0 type bridge");
        ip(&host, "link set br0 up");
        for (port, end, address) in [
            (PORT, &guest, "10.9.0.1/24"),
            (OTHER, &other, "10.9.0.2/24"),
            ("server0", &server, "10.9.0.3/24"),
        ] {
            ip(&host, &format!("link add {port} type veth peer name peer0"));
            ip(&host, &format!("link set {port} master br0 up"));
            ip(
                &host,
                &format!("link set peer0 netns {}", end.path().display()),
            );
            ip(end, &format!("addr add {address} dev peer0"));
            // Otherwise a guest sends the data of a second at once, and pauses by itself.
            ip(end, "link set peer0 gso_max_segs 2");
            ip(end, "link set peer0 up");
            ip(end, "link set lo up");
            // No tail loss probe: on a loaded machine ACKs are delayed by more than its timeout.
            let mut no_probes = end.command("sh");
            no_probes.args(["-c", "echo 0 > /proc/sys/net/ipv4/tcp_early_retrans"]);
            success(no_probes);
        }
        Self {
            guests: [guest, other],
            host,
            server,
        }
    }

    /// Starts the flows of one guest.
    pub fn transfers(&self, guest: usize) -> Vec<Transfer> {
        self.paced_transfers(guest, FLOWS, PACE_BYTES_PER_S)
    }

    /// Starts so many flows of one guest, each at this rate.
    pub fn paced_transfers(&self, guest: usize, flows: u16, bytes_per_s: u32) -> Vec<Transfer> {
        let address = |end: usize, port| SocketAddr::from(([10, 9, 0, end as u8 + 1], port));
        let start = |number| {
            let from = End {
                namespace: &self.guests[guest],
                address: address(guest, 40_000 + number),
            };
            let to = End {
                namespace: &self.server,
                address: address(2, 5_000 + flows * guest as u16 + number),
            };
            Transfer::start_paced(from, to, bytes_per_s)
        };
        (0..flows).map(start).collect()
    }
}

/// Returns the retransmitted segments of the guests with and without programs on their port.
pub fn resent(transfers: &[Vec<Transfer>; 2]) -> [u32; 2] {
    let resent = |transfer: &Transfer| transfer.info().total_retrans;
    [0, 1].map(|side| transfers[side].iter().map(resent).sum())
}

/// Returns the segments of a guest that were lost: retransmitted, and not reported as a duplicate by
/// their receiver (RFC 2883). A machine that stands still makes TCP retransmit what then arrives
/// twice.
pub fn lost(transfers: &[Transfer]) -> u32 {
    let lost = |transfer: &Transfer| transfer.info().needed_retransmits();
    transfers.iter().map(lost).sum()
}
