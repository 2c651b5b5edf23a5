//! Streams through translated ports at the full speed of the machine, with offloads.

#[path = "support/bridge.rs"]
mod bridge;
mod support;

use std::time::Duration;

use bridge::{Bridge, Stream, listen};
use uc_core::{Policy, consts};
use uc_port::Programs;

const TIME: Duration = Duration::from_secs(2);

/// Sends a stream for [`TIME`], under this law or untranslated, and asserts that much arrived. Returns how
/// many segments the guest took for lost by the receiver's ACKs, and how many packets arrived out of
/// order.
fn stream(law: Option<u32>) -> (u64, u64) {
    let bridge = Bridge::build(1, true).unwrap();
    let programs = Programs::load(64).unwrap();
    let policy = |law| Policy {
        ecn_syns: 2,
        ..Policy::new(law, consts::PROFILE_LINUX)
    };
    let attach = |law| bridge.attach(&programs, 0, policy(law)).unwrap();
    let links = law.map(attach);
    let listener = listen(&bridge.receiver, Bridge::RECEIVER).unwrap();
    let to = listener.local_addr().unwrap();
    let mut stream = Stream::connect(&bridge.guests[0], to, &listener).unwrap();
    let bytes = stream.send(TIME).unwrap();
    assert!(bytes > 50_000_000, "{bytes} bytes");
    let counter = |namespace, name| Bridge::counter(namespace, name).unwrap();
    let answer = (
        counter(&bridge.guests[0], "TCPFastRetrans"),
        counter(&bridge.receiver, "TCPOFOQueue"),
    );
    // Where the machine pauses, timeouts and tail loss probes retransmit, too.
    let all = counter(&bridge.guests[0], "RetransSegs");
    println!(
        "law {law:?}: {bytes} bytes, lost and out of order: {answer:?}, \
         retransmitted: {all}"
    );
    bridge.host.enter(|| drop(links)).unwrap();
    answer
}

/// Law `ecn` was seen to retransmit hundreds of segments where plain streams beside it did not. The
/// cause was the machine: without steering, a veth queues a packet on the processor that sends it, so
/// packets overtake each other, and the guest takes that for losses, with programs and without.
#[test]
fn live_a_fast_stream_on_steered_ports_loses_nothing_under_each_law() {
    if !support::live() {
        return;
    }
    for law in [None, Some(consts::LAW_ECN), Some(consts::LAW_DCTCP)] {
        assert_eq!(stream(law), (0, 0), "{law:?}");
    }
}
