//! Frames as guests and networks really send them, through taps and a bridge: super-segments of many
//! pages, checksums that are left to the device, VLAN tags that the kernel removes. What arrives
//! must be the frame with the native core's edit, and its checksums must hold.

mod fit;
#[path = "../../../base/core/tests/flows/mod.rs"]
mod flows;
mod kernel;

use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use fit::{ends, fit_clocks};
use flows::{Home, Passed, case_count, for_all, plans, walk};
use kernel::frame::{Oddity, Shape, frame, make_odd, tags};
use kernel::host::{Host, ip};
use kernel::reading::{Reading, read};
use kernel::tap::{Offload, Tap};
use kernel::{now_ns, policy};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Edit, Reason, Segment, consts};
use uc_port::AttachVia;

/// The largest payload, which fits into the MTU of the taps with all headers.
const PAYLOAD_MAX: u32 = 60_000;

/// Maximum pause that the comparison tolerates, well below the smallest retransmission timeout.
const PAUSE_NS: u64 = 120_000_000;

/// Time within which a frame arrives that should not: it crosses the bridge in microseconds.
const SOON: Duration = Duration::from_millis(20);
/// How long a frame may take on a machine that stalls.
const STALL: Duration = Duration::from_secs(10);

/// How a segment is sent.
#[derive(Clone, Debug)]
struct Sent {
    payload_max: u32,
    /// The checksum is left to the device; a super-segment's always is.
    partial: bool,
    /// In another VLAN than the rest of its flow.
    astray: bool,
}

fn ways() -> impl Strategy<Value = Sent> {
    (1u32..=PAYLOAD_MAX, any::<bool>(), 0u8..20).prop_map(|(payload_max, partial, astray)| Sent {
        payload_max,
        partial,
        astray: astray == 0,
    })
}

/// A guest's tap with the programs on it, bridged with the network's.
struct Wire {
    guest: Tap,
    network: Tap,
}

impl Wire {
    fn new(host: &Host) -> Wire {
        let wire = Wire {
            guest: Tap::open("g0"),
            network: Tap::open("n0"),
        };
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        ip("link add b0 type bridge forward_delay 0 mcast_snooping 0");
        for name in ["g0", "n0"] {
            ip(&format!("link set {name} mtu 65000 master b0 up"));
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        }
        std::fs::write("/proc/sys/net/ipv6/conf/b0/disable_ipv6", "1").unwrap();
        ip("link set b0 up");
        host.attach(&["g0"], AttachVia::Auto);
        wire
    }

    /// Returns the taps of a frame: where it is sent, and where it arrives.
    fn ends(&self, from_guest: bool) -> [&Tap; 2] {
        if from_guest {
            [&self.guest, &self.network]
        } else {
            [&self.network, &self.guest]
        }
    }

    /// Sends a frame from one side.
    fn send(&self, from_guest: bool, bytes: &[u8], offload: Offload) {
        let [from, _] = self.ends(from_guest);
        from.write(bytes, offload);
    }

    /// Returns what arrives at the other side, or soon that nothing does if nothing is expected.
    fn receive(&self, from_guest: bool, is_expected: bool) -> Option<(Vec<u8>, Offload)> {
        let [_, to] = self.ends(from_guest);
        to.read(if is_expected { STALL } else { SOON })
    }

    /// Discards what arrives after a comparison has failed.
    fn drain(&self) {
        for tap in [&self.guest, &self.network] {
            while tap.read_now().is_some() {}
        }
    }
}

/// One side of the comparison: the native core, in place of the programs.
struct Native {
    homes: HashMap<(SocketAddr, SocketAddr, u16), Home>,
}

impl Native {
    fn pass(&mut self, reading: &Reading, now_ns: u64) -> Passed {
        self.homes
            .entry((reading.guest, reading.remote, reading.vlan))
            .or_insert_with(|| Home::new(policy()))
            .pass(&reading.segment, now_ns)
    }
}

/// Checks a frame that has arrived against the one that was sent, under an edit.
fn check(reading: &Reading, sent: &[u8], edit: &Edit, arrived: &[u8]) -> Result<(), TestCaseError> {
    let expected = reading.edited(sent, edit);
    prop_assert_eq!(
        reading.without_checksums(arrived),
        reading.without_checksums(&expected)
    );
    prop_assert!(reading.checksums_hold(arrived), "checksums");
    Ok(())
}

/// Returns the frame of a segment, and its size of segments on the wire; 0: it is one segment.
fn made(segment: &Segment, sent: &Sent, guest: SocketAddr, remote: SocketAddr) -> (Vec<u8>, u32) {
    let shape = Shape {
        payload_max: sent.payload_max,
        ..kernel::frame::PLAIN
    };
    let bytes = frame(segment, guest, remote, &shape);
    let payload = segment.payload_bytes.min(sent.payload_max);
    let wire = u32::from(segment.wire_payload_bytes);
    // the kernel refuses what no device could cut
    let gso_size = if wire >= 8 && wire < payload { wire } else { 0 };
    (bytes, gso_size)
}

#[test]
fn live_frames_of_many_pages_arrive_as_the_native_core_edits_them() {
    let Some(host) = Host::new() else { return };
    let wire = Wire::new(&host);
    let programs = host.open();
    let counts = Cell::new([0u64; 5]);
    let cases = (plans(60, false), any::<bool>(), tags(), vec(ways(), 1..20));
    for_all(case_count(60), &cases, |(mut plan, ipv6, tag, ways)| {
        fit_clocks(&mut plan);
        programs.forget_flows(wire.guest.index()).unwrap();
        wire.drain();
        let (guest, remote) = ends(ipv6);
        let mut native = Native {
            homes: HashMap::new(),
        };
        let mut ways = ways.iter().cycle();
        let (began_ns, mut failed) = (now_ns(), Ok(()));
        let nothing = |segment: &Segment| Passed {
            reason: Reason::NO_HANDSHAKE,
            edit: uc_core::no_edit(segment),
            before: None,
            after: None,
        };
        walk(&plan, &mut |segment, _| {
            let Some(sent) = ways.next().filter(|_| failed.is_ok()) else {
                return nothing(segment);
            };
            let from_guest = u32::from(segment.direction) == consts::FROM_GUEST;
            let (mut bytes, gso_size) = made(segment, sent, guest, remote);
            let tag = if sent.astray { Some(9) } else { tag };
            let offload = match tag {
                Some(_) => Offload::default(),
                None => Offload {
                    gso_size,
                    partial: sent.partial || gso_size > 0,
                },
            };
            if let Some(tag) = tag {
                make_odd(&mut bytes, &Oddity::Vlan(tag));
            }
            let reading = read(&bytes, offload.gso_size, from_guest).expect("a whole frame");
            // the native side has no hooks: tests/hooks.rs has what they change
            let index = wire.guest.index();
            programs.reset_hooks(index, |_| true).unwrap();
            let now_ns = now_ns();
            wire.send(from_guest, &bytes, offload);
            let passed = native.pass(&reading, now_ns);
            let arrived = wire.receive(from_guest, !passed.reason.drops());
            let late = kernel::now_ns() - began_ns > PAUSE_NS;
            let mut count = counts.get();
            count[0] += 1;
            count[1] += u64::from(bytes.len() > 4096);
            count[2] += u64::from(offload.partial);
            count[3] += u64::from(tag.is_some() && passed.reason == Reason::TRANSLATED);
            count[4] += u64::from(late);
            counts.set(count);
            if late {
                return passed;
            }
            failed = match arrived {
                Some((frame, _)) if !passed.reason.drops() => {
                    check(&reading, &bytes, &passed.edit, &frame)
                }
                None if passed.reason.drops() => Ok(()),
                other => Err(TestCaseError::fail(format!(
                    "{:?} of {segment:?} by {sent:?}: arrived {:?}",
                    passed.reason,
                    other.map(|(frame, _)| frame.len())
                ))),
            };
            passed
        });
        failed
    });
    let [frames, large, partial, tagged, late] = counts.get();
    println!(
        "{frames} frames, {large} above a page, {partial} with partial checksums, \
         {tagged} translated with a tag, {late} late"
    );
    assert!(frames > 500 && large > 20 && partial > 100 && tagged > 50);
    assert!(late * 2 < frames, "{late} of {frames} late");
}
