//! `share` beside each law around the shadow: what is reported of it, and that nothing is without a
//! weight.

use crate::guest::{Guest, IRS, MSS};
use uc_core::coupling::{Answer, Report, consts as ccc};
use uc_core::{DctcpParameters, DelayParameters, Policy, Segment, consts};

const PROFILES: [u32; 2] = [consts::PROFILE_LINUX, consts::PROFILE_RFC];
const LAWS: [u32; 3] = [consts::LAW_ECN, consts::LAW_DCTCP, consts::LAW_DELAY];

fn shared(policy: Policy) -> Guest {
    let mut guest = Guest::under(policy, true);
    guest.flow.share = 3;
    guest
}

fn policy(law: u32, profile: u32) -> Policy {
    let policy = Policy::new(law, profile);
    let parameters = DelayParameters {
        target_us: 50_000,
        range_us: 0,
    };
    match law {
        consts::LAW_DELAY => policy.with_delay(parameters),
        _ => policy,
    }
}

/// Returns the flow's report at the guest's last ACK, and its window in bytes with a share of
/// `share_q1` half segments.
fn tell(guest: &mut Guest, share_q1: u32) -> (Report, u32) {
    let ack = Segment {
        seq: IRS + 1,
        ack: guest.una,
        window: 65535,
        flags: consts::ACK as u8,
        direction: consts::TO_GUEST as u8,
        ..Segment::default()
    };
    let awaits = uc_core::COMPILED
        .awaits(&mut guest.flow)
        .expect("an ACK of data awaits its share");
    let report = uc_core::COMPILED.report(&mut guest.flow, guest.now_ns);
    let answer = Answer {
        cwnd_bytes: share_q1 * MSS / 2,
        ssthresh_bytes: share_q1 * MSS / 2,
        state: report.state,
    };
    let mut edit = uc_core::no_edit(&ack);
    uc_core::COMPILED.tell_share(&mut guest.flow, &ack, awaits, Some(&answer), &mut edit);
    (report, edit.window.into())
}

/// A guest with ten segments in flight that has this share.
fn settled(policy: Policy, share_q1: u32) -> Guest {
    let mut guest = shared(policy);
    guest.send(10);
    guest.ack(1);
    tell(&mut guest, share_q1);
    guest
}

#[test]
fn a_flow_with_a_weight_awaits_its_share_under_each_law_and_one_without_has_its_laws_window() {
    for law in LAWS {
        for profile in PROFILES {
            let mut alone = Guest::under(policy(law, profile), true);
            alone.send(10);
            alone.ack(1);
            assert!(uc_core::COMPILED.awaits(&mut alone.flow).is_none());
            let mut guest = shared(policy(law, profile));
            guest.send(10);
            guest.ack(2);
            let (report, window) = tell(&mut guest, 24);
            assert_eq!(report.flight_bytes, 8 * MSS, "law {law}");
            assert_eq!(report.acked_bytes, 2 * MSS, "law {law}");
            assert!(report.used_bytes >= 8 * MSS, "law {law}: {report:?}");
            assert_eq!(report.limited, 0, "law {law}");
            assert_eq!(window, 12 * MSS, "law {law}");
        }
    }
}

#[test]
fn observed_flow_has_no_share_at_any_weight() {
    for law in LAWS {
        let mut guest = shared(Policy {
            modes: consts::MODE_OBSERVE as u8,
            ..policy(law, consts::PROFILE_LINUX)
        });
        guest.send(10);
        guest.ack(1);
        assert!(
            uc_core::COMPILED.awaits(&mut guest.flow).is_none(),
            "law {law}"
        );
    }
}

#[test]
fn dctcp_reduces_the_share_not_its_whole_segments() {
    for profile in PROFILES {
        // α = 1 keeps a half; α = 1/16 of nine segments or ten nothing less than all, in segments
        for (alpha_q7, kept) in [(128, 0.5), (8, 31.0 / 32.0)] {
            let dctcp = policy(consts::LAW_DCTCP, profile);
            let mut guest = settled(
                dctcp.with_dctcp(DctcpParameters {
                    initial_alpha_q7: alpha_q7,
                    gain_shift: 15,
                    ..dctcp.dctcp()
                }),
                19,
            );
            guest.ack_ece(1);
            let (report, _) = tell(&mut guest, 19);
            assert_eq!(u32::from(report.state), ccc::RECOVERY);
            let found = f64::from(report.ssthresh_bytes) / f64::from(19 * MSS / 2);
            let slack = if profile == consts::PROFILE_LINUX {
                0.06
            } else {
                0.001
            };
            assert!((found - kept).abs() <= slack, "{profile}: {found}, {kept}");
            if profile == consts::PROFILE_LINUX && alpha_q7 == 8 {
                assert!((found - 1.0).abs() < 0.001, "{found}: no segment is taken");
            }
        }
    }
}

#[test]
fn a_mark_behind_a_reduction_that_ends_with_it_is_told_as_one_more() {
    let mut guest = settled(policy(consts::LAW_DCTCP, consts::PROFILE_LINUX), 20);
    guest.ack_ece(1);
    let (report, _) = tell(&mut guest, 10);
    assert_eq!((u32::from(report.state), report.again), (ccc::RECOVERY, 0));
    // a window later: the first ACK of something sent after the cut is marked, too
    guest.ack(8);
    let (report, window) = tell(&mut guest, 10);
    assert_eq!((u32::from(report.state), report.again), (ccc::RECOVERY, 0));
    guest.send((window / MSS).max(1));
    guest.ack_ece(1);
    let (report, _) = tell(&mut guest, 10);
    assert_eq!((u32::from(report.state), report.again), (ccc::RECOVERY, 1));
    assert!(report.ssthresh_bytes < report.cwnd_bytes, "{report:?}");
}

#[test]
fn a_share_below_law_delays_floor_is_the_floor_and_comes_back_as_no_growth() {
    for profile in PROFILES {
        let mut guest = settled(policy(consts::LAW_DELAY, profile), 2);
        for _ in 0..9 {
            guest.ack(1);
            let (report, window) = tell(&mut guest, 2);
            // a segment in a window acknowledged is its own growth
            assert!(report.cwnd_bytes <= 2 * MSS, "{report:?}");
            assert!(window >= report.flight_bytes, "{window}");
        }
    }
}
