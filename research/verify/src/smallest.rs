//! The smallest cases in which f's window exceeds the guest's own, by trying all small cases.
//!
//! vCC argues that an ECN sender's window is never the larger one, so that a receive window always
//! suffices to express it. [`smallest`] tries all flows with one loss, one mark and one pause at
//! most, and returns the one that refutes the claim after the fewest transmissions.

use uc_core::COMPILED;
use uc_net::Nanos;
use uc_tcp::{Info, Segment};

use crate::element::{Element, Translator, Wire};
use crate::law::{Law, guest_hosts, native_hosts, rfc_policy};
use crate::plan::{After, Burst, Direction, Plan};
use crate::world::{Cause, Hosts, Observer, State, World};

/// Propagation delay of either direction, in microseconds; packets take no time, so a round trip is
/// one step.
const DELAY_US: u32 = 10_000;
/// The pause, in thousandths of the retransmission timeout: long enough for the restart of RFC 5681
/// §4.1.
const PAUSE_RTO_PERMILLE: u32 = 1_500;
/// Initial windows that are tried, in segments (RFC 3390).
const INITIAL_WINDOWS: std::ops::RangeInclusive<u8> = 2..=4;
/// Maximum numbers of transmissions that are tried one after the other, handshake included.
const PACKETS_MAX: [u32; 3] = [8, 16, 32];

/// The cause of f's larger window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Any: also the bytes counted towards the next segment of congestion avoidance.
    Any,
    /// The slow-start threshold of f is the higher one.
    Threshold,
}

impl Reason {
    /// All reasons, in the order of the record.
    pub const ALL: [Reason; 2] = [Reason::Any, Reason::Threshold];

    /// Returns the reason's name, as `uc-bench verify --smallest` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Any => "any",
            Reason::Threshold => "threshold",
        }
    }
}

/// Returns the case that refutes "f's window is never the larger one" for this reason after the
/// fewest transmissions; of several the one with the smallest initial window, then with the
/// earliest pause, loss and mark. `None`: no case of up to 32 transmissions does. The case ends
/// with the act at which the windows cross.
pub fn smallest(law: Law, reason: Reason) -> Option<Plan> {
    let policy = rfc_policy(law, *INITIAL_WINDOWS.start());
    let hosts = (native_hosts(law), guest_hosts(law, false));
    let crosses = |plan: &Plan| {
        let policy = uc_core::Policy {
            initial_window_segments: plan.initial_window_segments,
            ..policy
        };
        let native = follow(plan, &hosts.0, Wire);
        let guest = follow(plan, &hosts.1, Translator::new(COMPILED, policy, false));
        crossing(&native, &guest, reason)
    };
    PACKETS_MAX
        .into_iter()
        .find_map(|most| search(most, &crosses))
}

/// Tries all cases of at most `most` transmissions. Returns the first of those that `crosses` after the fewest; `None`:
/// no case does.
fn search(most: u32, crosses: &impl Fn(&Plan) -> Option<u32>) -> Option<Plan> {
    let mut best: Option<Plan> = None;
    for initial_window_segments in INITIAL_WINDOWS {
        // 0: no pause, no loss, no mark; the SYN is packet 0
        for first in 0..most {
            for lost in 0..most {
                for marked in 0..most {
                    let most = best.as_ref().map_or(most, |plan| plan.packets - 1);
                    if first.max(lost).max(marked) >= most {
                        break;
                    }
                    let plan = plan(initial_window_segments, most, (first, lost, marked));
                    if let Some(packets) = crosses(&plan).filter(|&packets| packets <= most) {
                        best = Some(Plan { packets, ..plan });
                    }
                }
            }
        }
    }
    best
}

/// An act of a sender: its variables after it, and the number of packets sent before it.
#[derive(Clone, Copy, Debug)]
struct Act {
    after: Info,
    sent_before: u32,
}

#[derive(Default)]
struct Acts {
    list: Vec<Act>,
    /// Number of packets that were sent so far.
    sent: u32,
    /// Packets sent before the current act began.
    sent_before: u32,
}

impl Observer for Acts {
    fn sent(&mut self, _: Nanos, _: &Segment) -> bool {
        self.sent += 1;
        true
    }

    fn acted(&mut self, _: Nanos, _: &Cause, _: &State, after: &State) -> bool {
        self.list.push(Act {
            after: after.info,
            sent_before: self.sent_before,
        });
        self.sent_before = self.sent;
        true
    }
}

fn follow<E: Element>(plan: &Plan, hosts: &Hosts, element: E) -> Vec<Act> {
    let mut acts = Acts::default();
    World::new(plan, hosts, element, &mut acts).run();
    acts.list
}

/// Returns whether f's congestion window exceeds the guest's, both in whole segments.
pub(crate) fn exceeds(f: &Info, guest: &Info) -> bool {
    let segments = |info: &Info| info.cwnd_bytes / info.smss_bytes.max(1);
    segments(f) > segments(guest)
}

/// Returns how many transmissions a case needs to reach the first act after which f's window is the larger one, in
/// whole segments; `None` if f's window never is, or not for this reason.
fn crossing(native: &[Act], guest: &[Act], reason: Reason) -> Option<u32> {
    let mut pairs = native.iter().zip(guest);
    let (f, g) = pairs.find(|(f, g)| exceeds(&f.after, &g.after))?;
    let higher = f.after.ssthresh_bytes > g.after.ssthresh_bytes;
    (reason == Reason::Any || higher).then_some(f.sent_before + 1)
}

/// Makes a case of at most `packets` transmissions: `first` segments, the pause, and then as many
/// as the windows allow. Packet `lost` is lost and packet `marked` marked; 0: none.
fn plan(initial_window_segments: u8, packets: u32, (first, lost, marked): (u32, u32, u32)) -> Plan {
    let one = |number: u32| if number == 0 { vec![] } else { vec![number] };
    let write = |segments, pause_rto_permille| Burst {
        after: After::Acked,
        pause_us: 0,
        pause_rto_permille,
        segments,
        odd_bytes: 0,
    };
    let mut bursts = vec![write(100, PAUSE_RTO_PERMILLE)];
    if first > 0 {
        bursts.insert(0, write(first, 0));
    }
    Plan {
        iss: 0,
        mss_bytes: 1_000,
        initial_window_segments,
        receive_buffer_segments: 65,
        packets,
        data: Direction {
            delay_us: DELAY_US,
            lost: one(lost),
            marked: one(marked),
            ..Direction::default()
        },
        acks: Direction {
            delay_us: DELAY_US,
            ..Direction::default()
        },
        bursts,
        stalls: Vec::new(),
        handovers: Vec::new(),
    }
}
