//! Builds probes as frames, in the format of `bpf/watch/probe.h`.

use crate::frame::{Family, Handshake, ipv4_checksum};
use crate::key::ProbeKey;
use crate::layout::{
    UC_PROBE_BYTES, UC_PROBE_MAGIC, UC_PROBE_PROTOCOL, UC_PROBE_SIGNED_BYTES, UC_PROBE_VERSION,
    uc_probe_signed, uc_shim_watch_left, uc_shim_watch_slot,
};

const PROBE_BYTES: usize = UC_PROBE_BYTES as usize;
const SIGNED_BYTES: usize = UC_PROBE_SIGNED_BYTES as usize;
/// ECN-capable, ECT(0) (RFC 3168 §5).
const ECT0: u8 = 2;
const ECN_MASK: u8 = 3;
/// IPv4's flag "don't fragment".
const DONT_FRAGMENT: u8 = 0x40;

/// Makes probe `index` (from 0) of the `count` probes of a handshake, as a frame that leaves the guest's port. It has
/// 60 bytes with IPv4, Ethernet's minimum without the FCS, and 80 with IPv6.
pub(crate) fn probe_frame(
    of: &Handshake,
    index: u8,
    count: u8,
    wall_ns: u64,
    key: &ProbeKey,
) -> Vec<u8> {
    let mut frame = of.ethernet.to_vec();
    match of.family {
        Family::V4 { tos, ttl } => frame.extend(ipv4_header(of, tos, ttl)),
        Family::V6 { first_word, hops } => frame.extend(ipv6_header(of, first_word, hops)),
    }
    frame.extend(payload(of, index, count, wall_ns, key));
    frame
}

fn ipv4_header(of: &Handshake, tos: u8, ttl: u8) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    // The flow's own class of service, so that the probe waits in the flow's own queues.
    header[1] = tos & !ECN_MASK | ECT0;
    header[2..4].copy_from_slice(&((20 + PROBE_BYTES) as u16).to_be_bytes());
    header[6] = DONT_FRAGMENT;
    header[8] = ttl;
    header[9] = UC_PROBE_PROTOCOL as u8;
    header[12..16].copy_from_slice(&of.source[12..]);
    header[16..].copy_from_slice(&of.destination[12..]);
    let checksum = ipv4_checksum(&header);
    header[10..12].copy_from_slice(&checksum);
    header
}

fn ipv6_header(of: &Handshake, first_word: u32, hops: u8) -> [u8; 40] {
    let mut header = [0; 40];
    // The flow's class and label, by which switches choose its path.
    let ecn_bits = u32::from(ECN_MASK) << 20;
    let first_word = first_word & !ecn_bits | u32::from(ECT0) << 20;
    header[..4].copy_from_slice(&first_word.to_be_bytes());
    header[4..6].copy_from_slice(&(PROBE_BYTES as u16).to_be_bytes());
    header[6] = UC_PROBE_PROTOCOL as u8;
    header[7] = hops;
    header[8..24].copy_from_slice(&of.source);
    header[24..].copy_from_slice(&of.destination);
    header
}

fn payload(
    of: &Handshake,
    index: u8,
    count: u8,
    wall_ns: u64,
    key: &ProbeKey,
) -> [u8; PROBE_BYTES] {
    // SAFETY: no pointers.
    let (slot, left) = unsafe { (uc_shim_watch_slot(wall_ns), uc_shim_watch_left(wall_ns)) };
    let mut probe = [0; PROBE_BYTES];
    probe[..4].copy_from_slice(&of.ports);
    probe[4..6].copy_from_slice(&(UC_PROBE_MAGIC as u16).to_be_bytes());
    probe[6] = UC_PROBE_VERSION as u8;
    probe[7] = index;
    probe[8..12].copy_from_slice(&of.connection.to_be_bytes());
    probe[12] = count;
    probe[14..16].copy_from_slice(&(slot as u16).to_be_bytes());
    let mut signed = [0; SIGNED_BYTES];
    signed.copy_from_slice(&probe[..SIGNED_BYTES]);
    let text = uc_probe_signed {
        source: of.source,
        destination: of.destination,
        probe: signed,
        slot: slot.to_le_bytes(),
        left: left.to_be(),
        zero: [0; 2],
    };
    probe[SIGNED_BYTES..SIGNED_BYTES + 8].copy_from_slice(&key.tag(&text).to_le_bytes());
    probe[SIGNED_BYTES + 8..].copy_from_slice(&left.to_be_bytes());
    probe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::uc_shim_watch_sent_ns;
    use uc_core::watch::{Start, StartPolicy};

    const CE: u8 = 3;

    /// Returns the codepoint as which an unmarked probe counts that left at `wall_ns` of one clock
    /// and arrived at `now_ns` of another.
    fn timed(start: &mut Start, late_ns: u32, wall_ns: u64, now_ns: u64) -> u8 {
        let policy = StartPolicy {
            late_ns,
            ..StartPolicy::usual()
        };
        // SAFETY: no pointers.
        let left = unsafe { uc_shim_watch_left(wall_ns) };
        // SAFETY: no pointers.
        let sent_ns = unsafe { uc_shim_watch_sent_ns(left, start.transit_ns, now_ns) };
        start.timed(&policy, ECT0, sent_ns, now_ns)
    }

    #[test]
    fn a_delayed_probe_is_detected_whatever_the_hosts_clocks() {
        for wall_ns in [
            0,
            1,
            33_000_000,
            67_108_863,
            67_108_864,
            1_763_800_000_123_456_789,
        ] {
            for now_ns in [50_000_000, 4_294_967_295, 4_294_967_296, 99_999_999_999] {
                for (later_ns, late) in [(0, false), (7_000, false), (13_000, true)] {
                    let mut start = Start::default();
                    assert_eq!(timed(&mut start, 10_000, wall_ns, now_ns), ECT0);
                    let (left_ns, came_ns) = (wall_ns + 400_000, now_ns + 400_000 + later_ns);
                    let counts = timed(&mut start, 10_000, left_ns, came_ns);
                    assert_eq!(counts == CE, late, "{wall_ns} {now_ns} {later_ns}");
                    // A difference of 20 ms is not taken for 47 ms in the other direction.
                    let counts = timed(&mut start, 10_000, left_ns, came_ns + 20_000_000);
                    assert_eq!(counts, CE, "{wall_ns} {now_ns} {later_ns}");
                    let counts = timed(&mut start, 10_000, left_ns + 30_000_000, now_ns);
                    assert_eq!(counts, ECT0, "an early probe becomes the fastest");
                }
            }
        }
    }

    #[test]
    fn no_probe_counts_as_delayed_without_a_bound_in_the_policy() {
        let mut start = Start::default();
        assert_eq!(timed(&mut start, 0, 1_000_000, 5_000_000), ECT0);
        assert_eq!(timed(&mut start, 0, 1_000_000, 30_000_000), ECT0);
    }
}
