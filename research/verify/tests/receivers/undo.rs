//! Spurious timeouts of guests with SACK: the shadow takes their reduction back, as the guest does.

use uc_core::{COMPILED, consts};
use uc_net::Nanos;
use uc_net::random::Stream;
use uc_verify::Law;
use uc_verify::element::Translator;
use uc_verify::plan::{After, Burst, Direction, Plan};
use uc_verify::world::{Cause, Observer, State, World};

use crate::flows::{Receivers, SEED, draw_hosts, policy};

/// The windows around a timeout.
#[derive(Debug, Default)]
struct Windows {
    /// Window of the shadow before the first timeout.
    before_bytes: Option<u32>,
    /// Last window of the shadow.
    last_bytes: u32,
    timeouts: u64,
    undone: u64,
}

impl Observer for Windows {
    fn sent(&mut self, _: Nanos, _: &uc_tcp::Segment) -> bool {
        true
    }

    fn acted(&mut self, _: Nanos, _: &Cause, before: &State, after: &State) -> bool {
        self.timeouts = after.totals.timeouts;
        self.undone = after.totals.spurious_timeouts;
        if let (Some(old), 1) = (before.shadow, self.timeouts) {
            self.before_bytes.get_or_insert(old.window_bytes);
        }
        self.last_bytes = after.shadow.map_or(0, |shadow| shadow.window_bytes);
        true
    }
}

/// Returns a flow without losses, whose ACKs stop for longer than the guest's timer.
fn stopping(number: u64) -> Plan {
    let way = Direction {
        delay_us: 5_000,
        packet_us: 200,
        ..Direction::default()
    };
    Plan {
        iss: 1,
        mss_bytes: 1_460,
        initial_window_segments: 10,
        receive_buffer_segments: 44,
        packets: 1_000_000,
        data: Direction {
            marked: vec![20, 60],
            ..way.clone()
        },
        acks: Direction {
            held: vec![(400 + number as u32, 300_000)],
            ..way
        },
        bursts: vec![Burst {
            after: After::Sent,
            pause_us: 0,
            pause_rto_permille: 0,
            segments: 1_000_000,
            odd_bytes: 0,
        }],
        stalls: Vec::new(),
        handovers: Vec::new(),
    }
}

fn run(number: u64, law: Law, profile: u32, receivers: Receivers) -> Windows {
    let mut random = Stream::new(SEED, &format!("undo {number}"));
    let mut hosts = draw_hosts(&mut random, law, receivers);
    hosts.until = Nanos::from_secs(2);
    let plan = stopping(number);
    let translator = Translator::new(COMPILED, policy(law, profile, &plan), false);
    let mut windows = Windows::default();
    World::new(&plan, &hosts, translator, &mut windows).run();
    windows
}

/// Flows for each law, profile and kind of receivers.
const FLOWS: u64 = 20;

#[test]
fn the_reduction_of_a_spurious_timeout_is_taken_back() {
    for receivers in [Receivers::Plain, Receivers::Autotuning, Receivers::BothWays] {
        for law in Law::ALL {
            for profile in [consts::PROFILE_RFC, consts::PROFILE_LINUX] {
                let label = format!("{receivers:?}, {law:?}, profile {profile}");
                let mut undone = 0;
                for number in 0..FLOWS {
                    let windows = run(number, law, profile, receivers);
                    assert_eq!(windows.timeouts, 1, "flow {number}, {label}");
                    if windows.undone == 0 {
                        continue; // its first ACK covered all data, so the guest could not tell
                    }
                    undone += 1;
                    let kept = Some(windows.last_bytes) >= windows.before_bytes;
                    assert!(kept, "flow {number}, {label}: {windows:?}");
                }
                assert!(4 * undone > FLOWS, "{label}: {undone}");
            }
        }
    }
}
