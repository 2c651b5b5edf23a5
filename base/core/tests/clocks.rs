//! Two processors that handle packets at once may tell the core their moments in the other order:
//! then nothing has passed between them.

use crate::guest::Guest;
use uc_core::consts;
use uc_core::watch::{Bucket, Path, StartPolicy};

const NOW_NS: u64 = 10_000_000_000;
const BEHIND_NS: u64 = NOW_NS - 1;

#[test]
fn a_path_that_another_processor_measures_in_this_moment_is_not_probed_again() {
    let policy = StartPolicy::usual();
    let mut path = Path::default();
    assert!(policy.probes(&mut path, NOW_NS) > 0);
    assert_eq!(policy.probes(&mut path, BEHIND_NS), 0, "on their way");
    path.answered(&policy, 10 * 1_448, 1_460, 100_000);
    assert_eq!(policy.probes(&mut path, BEHIND_NS), 0, "answered");
}

#[test]
fn earlier_packet_keeps_the_counts_of_a_link() {
    let policy = StartPolicy {
        pace_bytes_per_s: 125_000_000,
        ..StartPolicy::usual()
    };
    let mut bucket = Bucket::default();
    bucket.heard(&policy, 1_000, true, NOW_NS);
    bucket.heard(&policy, 500, true, BEHIND_NS);
    assert_eq!((bucket.bytes, bucket.steady_bytes), (1_500, 1_500));
    assert_eq!(bucket.period_ns, NOW_NS);
}

#[test]
fn an_ack_that_is_handled_with_the_data_it_acknowledges_has_no_round_trip_of_a_minute() {
    let mut guest = Guest::connected(consts::PROFILE_LINUX as u8, 10, false);
    let before_us = guest.flow.srtt_us;
    guest.send(1);
    // each segment takes the guest's clock 10 us on
    guest.now_ns -= 15_000;
    guest.ack(1);
    assert!(guest.flow.srtt_us <= before_us.max(8));
}
