//! The receiving side: marks toward a guest that knows nothing of ECN, echoed in its name to a
//! sender that counts them (RFC 8257) or to one that waits for a signal (RFC 3168).

use crate::flows::for_all;
use crate::guest::{Guest, IRS, MSS};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::{prop_assert, prop_assert_eq, prop_oneof};
use uc_core::{Policy, Segment, consts};

const ACK: u8 = consts::ACK as u8;
const CWR: u8 = consts::CWR as u8;
const ECE: u8 = consts::ECE as u8;

/// A guest that receives.
struct Receiver {
    guest: Guest,
    /// What the peer sent and what the guest acknowledged, in bytes from the first on.
    sent: u32,
    acked: u32,
}

impl Receiver {
    fn new(law: u32, peer_is_dctcp: bool) -> Receiver {
        let policy = Policy::new(law, consts::PROFILE_LINUX);
        let mut receiver = Receiver {
            guest: Guest::under(policy, false),
            sent: 0,
            acked: 0,
        };
        if peer_is_dctcp {
            receiver.bare_ack(consts::ECT0);
        }
        receiver
    }

    /// A segment of the peer without data.
    fn bare_ack(&mut self, ecn: u32) {
        self.data_at(self.sent, 0, ecn, 0);
    }

    fn data_at(&mut self, at: u32, bytes: u32, ecn: u32, flags: u8) {
        let edit = self.guest.pass(&Segment {
            seq: (IRS + 1).wrapping_add(at),
            ack: self.guest.una,
            payload_bytes: bytes,
            wire_payload_bytes: bytes as u16,
            window: 65535,
            flags: ACK | flags,
            ecn: ecn as u8,
            direction: consts::TO_GUEST as u8,
            ..Segment::default()
        });
        assert_eq!(edit.flags & (ECE | CWR), 0, "the guest sees no signal");
        assert_eq!(u32::from(edit.ecn), consts::NOT_ECT);
    }

    fn data(&mut self, bytes: u32, marked: bool) {
        let ecn = if marked { consts::CE } else { consts::ECT0 };
        self.data_at(self.sent, bytes, ecn, 0);
        self.sent += bytes;
    }

    /// The guest acknowledges this much more, perhaps on data of its own. Does it echo?
    fn ack(&mut self, bytes: u32, payload_bytes: u32) -> bool {
        self.acked += bytes;
        let seq = self.guest.nxt;
        self.guest.nxt = seq.wrapping_add(payload_bytes);
        let edit = self.guest.pass(&Segment {
            seq,
            ack: (IRS + 1).wrapping_add(self.acked),
            payload_bytes,
            wire_payload_bytes: payload_bytes as u16,
            window: 1000,
            flags: ACK,
            direction: consts::FROM_GUEST as u8,
            ..Segment::default()
        });
        edit.flags & ECE != 0
    }
}

#[derive(Clone, Debug)]
enum Step {
    Data {
        bytes: u32,
        marked: bool,
    },
    /// What the guest has acknowledged comes once more, marked.
    Copy {
        bytes: u32,
    },
    Ack {
        share: u32,
        payload_bytes: u32,
    },
    /// The guest repeats its ACK.
    Duplicate,
}

fn steps() -> impl Strategy<Value = Step> {
    let payload = prop_oneof![3 => 0u32..1, 1 => 1u32..1400];
    prop_oneof![
        6 => (prop_oneof![4 => 1448u32..1449, 1 => 1u32..60_000], any::<bool>())
            .prop_map(|(bytes, marked)| Step::Data { bytes, marked }),
        3 => (1u32..=4, payload)
            .prop_map(|(share, payload_bytes)| Step::Ack { share, payload_bytes }),
        1 => (1u32..4000).prop_map(|bytes| Step::Copy { bytes }),
        1 => (0u8..1).prop_map(|_| Step::Duplicate),
    ]
}

#[test]
fn exact_echo_sums_to_the_marked_bytes_within_one_ack() {
    for_all(4000, &vec(steps(), 0..150), |steps| {
        let mut receiver = Receiver::new(consts::LAW_DCTCP, true);
        let (mut marked, mut echoed, mut largest_ack) = (0u32, 0u32, 0u32);
        for step in &steps {
            let open = receiver.sent - receiver.acked;
            match *step {
                // no peer sends more than the guest's window, which isn't scaled
                Step::Data { bytes, .. } if open + bytes > 65_535 => {}
                Step::Data { bytes, marked: is } => {
                    receiver.data(bytes, is);
                    marked += if is { bytes } else { 0 };
                }
                Step::Copy { bytes } => {
                    let bytes = bytes.min(receiver.acked);
                    if bytes > 0 {
                        receiver.data_at(receiver.acked - bytes, bytes, consts::CE, 0);
                    }
                }
                Step::Ack {
                    share,
                    payload_bytes,
                } => {
                    let bytes = (open * share).div_ceil(4);
                    largest_ack = largest_ack.max(bytes);
                    let echo = receiver.ack(bytes, payload_bytes);
                    // at once where any is owed: a signal never waits for company
                    prop_assert_eq!(echo, bytes > 0 && marked > echoed);
                    echoed += if echo { bytes } else { 0 };
                    prop_assert!(echoed <= marked + largest_ack);
                }
                Step::Duplicate => prop_assert!(!receiver.ack(0, 0), "an echo of nothing"),
            }
        }
        let rest = receiver.sent - receiver.acked;
        if receiver.ack(rest, 0) {
            echoed += rest;
            largest_ack = largest_ack.max(rest);
        }
        prop_assert!(echoed >= marked, "{} of {}", echoed, marked);
        prop_assert!(echoed == marked || echoed < marked + largest_ack);
        Ok(())
    });
}

#[test]
fn a_segment_that_is_half_a_copy_owes_its_new_half() {
    let mut receiver = Receiver::new(consts::LAW_DCTCP, true);
    receiver.data(1000, false);
    receiver.ack(1000, 0);
    receiver.data_at(500, 1000, consts::CE, 0);
    receiver.sent += 500;
    assert_eq!(receiver.guest.flow.echo_owed_bytes, 500);
    assert!(receiver.ack(500, 0));
    assert_eq!(receiver.guest.flow.echo_owed_bytes, 0);
}

#[test]
fn a_sender_that_has_not_shown_itself_hears_ece_until_it_says_cwr() {
    for law in [consts::LAW_DCTCP, consts::LAW_ECN] {
        let mut receiver = Receiver::new(law, false);
        receiver.data(MSS, true);
        for _ in 0..5 {
            receiver.data(MSS, false);
            assert!(receiver.ack(MSS, 0), "a lost ACK loses no signal");
            assert!(receiver.ack(0, 0));
        }
        receiver.data_at(receiver.sent, MSS, consts::ECT0, CWR);
        receiver.sent += MSS;
        assert!(!receiver.ack(MSS, 0));
    }
}

#[test]
fn under_law_ecn_a_dctcp_sender_hears_the_classic_echo() {
    let mut receiver = Receiver::new(consts::LAW_ECN, true);
    receiver.data(MSS, true);
    receiver.data(MSS, false);
    assert!(receiver.ack(MSS, 0));
    assert!(receiver.ack(MSS, 0));
}

#[test]
fn a_dctcp_sender_that_shows_itself_late_is_owed_nothing_of_before() {
    let mut receiver = Receiver::new(consts::LAW_DCTCP, false);
    for _ in 0..50 {
        receiver.data(MSS, true);
        assert!(receiver.ack(MSS, 0));
    }
    receiver.bare_ack(consts::CE);
    receiver.data(MSS, false);
    assert!(!receiver.ack(MSS, 0), "an old mark was echoed again");
    receiver.data(MSS, true);
    assert!(receiver.ack(MSS, 0));
}

/// α as RFC 8257 §3.3 makes it of marked shares of windows, g = 1/16.
fn alpha(shares: impl Iterator<Item = f64>) -> Vec<f64> {
    let update = |alpha: &mut f64, share: f64| {
        *alpha += (share - *alpha) / 16.0;
        Some(*alpha)
    };
    shares.scan(1.0, update).collect()
}

/// A window of `window` segments has a run of marks of random place and length, and the guest
/// acknowledges every second segment: what α does the sender compute, and what α would it with a
/// receiver of RFC 8257?
///
/// What was echoed so far is at most one segment more than what was marked (an ACK for two tells of
/// one mark), and at most one less (a marked segment waits for its ACK). So the two α differ by at
/// most g · 2 / window at any time: the sum of g · (1 - g)ⁱ · dᵢ / window over differences dᵢ whose
/// own sums stay within -1 and 1.
#[test]
fn through_the_echo_of_delayed_acks_alpha_is_off_by_an_eighth_of_a_segment_at_most() {
    let strategy = (6u32..60, vec((0u32..60, 0u32..30), 300..301));
    let relative_errors = std::cell::RefCell::new(Vec::new());
    for_all(200, &strategy, |(window, runs)| {
        let mut receiver = Receiver::new(consts::LAW_DCTCP, true);
        let (mut native, mut ours) = (Vec::new(), Vec::new());
        for (from, length) in runs {
            let (mut marked, mut echoed) = (0, 0);
            for segment in 0..window {
                let is = (from..from + length).contains(&segment);
                marked += u32::from(is);
                receiver.data(MSS, is);
                let open = receiver.sent - receiver.acked;
                if open == 2 * MSS && receiver.ack(open, 0) {
                    echoed += 2;
                }
            }
            native.push(f64::from(marked) / f64::from(window));
            ours.push(f64::from(echoed) / f64::from(window));
        }
        let (native, ours) = (alpha(native.into_iter()), alpha(ours.into_iter()));
        let errors: Vec<f64> = native
            .iter()
            .zip(&ours)
            .map(|(a, b)| (a - b).abs())
            .collect();
        let (worst, bound) = (max(&errors), 2.0 / 16.0 / f64::from(window));
        prop_assert!(worst < bound + 1e-9, "{} is above {}", worst, bound);
        let relative = errors.iter().sum::<f64>() / native.iter().sum::<f64>();
        relative_errors.borrow_mut().push(relative);
        Ok(())
    });
    let relative_errors = relative_errors.into_inner();
    let mean = relative_errors.iter().sum::<f64>() / relative_errors.len() as f64;
    println!("error in the mean of all cases {:.2} %", 100.0 * mean);
    assert!(mean < 0.05, "{mean}");
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
