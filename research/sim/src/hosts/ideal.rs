//! The shortest time of a transfer, against which its slowdown is counted.

use uc_net::Nanos;

use super::{Hosts, Side, Slot};

/// Size of an Ethernet header, and of a full frame's payload.
const ETHERNET_BYTES: u64 = 14;
const MTU_BYTES: u64 = 1500;
const TCP_HEADER_BYTES: u64 = 20;

impl Hosts {
    /// Returns the time in which an empty network carries a transfer of `bytes` from a connection's guest to its
    /// receiver. The time is the sum of the handshake's round trip, the propagation of the data, their transmission at
    /// the slowest link, and the transmission of one packet at each other link. Segments are full and without options,
    /// and packets of the handshake take no transmission time, so TCP takes longer.
    pub fn ideal(&self, slot: Slot, bytes: u64) -> Nanos {
        let path = self.end(slot, Side::Guest).route.path;
        let headers = u64::from(self.ip_header_bytes) + TCP_HEADER_BYTES;
        let segments = bytes.div_ceil(MTU_BYTES - headers).max(1);
        let all = bytes + segments * (headers + ETHERNET_BYTES);
        let packet = all.min(MTU_BYTES + ETHERNET_BYTES);
        let (mut delay_ns, mut longest_ns, mut packet_ns) = (0, 0, 0);
        for link in self.network.links_of(path) {
            let (rate, delay) = self.wires[link.0 as usize];
            let time_ns = |bytes: u64| {
                let bits = u128::from(bytes) * 8 * 1_000_000_000;
                (bits / u128::from(rate.0.max(1))) as u64
            };
            delay_ns += delay.0;
            longest_ns = longest_ns.max(time_ns(all - packet));
            packet_ns += time_ns(packet);
        }
        Nanos(3 * delay_ns + packet_ns + longest_ns)
    }
}
