//! Random flows of guests with SACK, and of receivers that do as hosts do.

use uc_core::{COMPILED, Policy};
use uc_net::Nanos;
use uc_net::random::Stream;
use uc_tcp::{Coalescing, Config, SpuriousTimeout};
use uc_verify::Law;
use uc_verify::draw::draw_stopping;
use uc_verify::element::Translator;
use uc_verify::law::{guest_hosts, rfc_policy};
use uc_verify::plan::{Direction, Plan};
use uc_verify::world::{Hosts, World};

use crate::judge::{Findings, Judge};

/// Seed of the flows.
pub(crate) const SEED: u64 = 1;
/// Number of parts of a flow whose data go both ways.
const BOTH_WAYS_PARTS: u32 = 4;

/// What the receivers of a test do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receivers {
    /// One ACK for each segment, of a fixed window; data flow one way.
    Plain,
    /// Windows grow, in duplicate ACKs too.
    Autotuning,
    /// Segments and ACKs are merged.
    Merging,
    /// Data flow both ways, and carry duplicate ACKs.
    BothWays,
    /// All of these.
    All,
}

/// Draws an end that uses SACK, as a receiver and as a sender.
fn draw_end(random: &mut Stream, receivers: Receivers, config: &Config) -> Config {
    let mut half =
        |kind| random.below(2) == 0 && (receivers == kind || receivers == Receivers::All);
    let [delays, merges, compresses] = std::array::from_fn(|_| half(Receivers::Merging));
    let tunes = half(Receivers::Autotuning) || receivers == Receivers::Autotuning;
    let sack_on_data = half(Receivers::BothWays) || receivers == Receivers::BothWays;
    Config {
        sack: true,
        dsack: random.below(2) == 0,
        sack_on_data,
        timestamps: random.below(2) == 0,
        limited_transmit: random.below(2) == 0,
        any_window_duplicates: false,
        new_acks_set_window: random.below(2) == 0,
        wscale: (tunes || random.below(2) == 0).then_some(7),
        // ACKs that wait leave with data
        delayed_ack: (delays || sack_on_data).then_some(Nanos::from_millis(40)),
        ack_segments: 2 + random.below(6) as u8,
        coalescing: merges.then(|| Coalescing {
            segments: 2 + random.below(16) as u8,
            within: Nanos::from_micros(random.below(2_000)),
        }),
        compressed_sacks: compresses.then(|| Nanos::from_micros(random.below(1_000))),
        autotune_from_bytes: tunes.then(|| 4_000 + random.below(20_000) as u32),
        ..config.clone()
    }
}

pub(crate) fn draw_hosts(random: &mut Stream, law: Law, receivers: Receivers) -> Hosts {
    let mut hosts = guest_hosts(law, false);
    hosts.sender = draw_end(random, receivers, &hosts.sender);
    hosts.receiver = draw_end(random, receivers, &hosts.receiver);
    hosts.sender.spurious_timeout = SpuriousTimeout::Undo;
    hosts.both_ways =
        receivers == Receivers::BothWays || receivers == Receivers::All && random.below(2) == 0;
    hosts
}

/// Makes a flow longer whose sender also acknowledges, with the same losses in each part.
fn lengthen(plan: &mut Plan) {
    let packets = plan.packets;
    for way in [&mut plan.data, &mut plan.acks] {
        let lost = std::mem::take(&mut way.lost);
        for part in 0..BOTH_WAYS_PARTS {
            way.lost
                .extend(lost.iter().map(|&number| number + part * packets));
        }
        way.lost.sort_unstable();
    }
    plan.packets *= BOTH_WAYS_PARTS;
}

/// Returns a flow's hosts and network.
fn drawn(number: u64, law: Law, receivers: Receivers) -> (Hosts, Plan) {
    let mut random = Stream::new(SEED, &format!("receivers of flow {number}"));
    let hosts = draw_hosts(&mut random, law, receivers);
    let mut plan = draw_stopping(SEED, number);
    if hosts.receiver.wscale.is_some() && hosts.sender.wscale.is_some() {
        plan.receive_buffer_segments = 20 + random.below(2_000) as u16;
    }
    if hosts.both_ways {
        lengthen(&mut plan);
        plan.acks.packet_us = plan.data.packet_us;
        plan.acks.queue_packets = plan.data.queue_packets;
    }
    if hosts.both_ways && random.below(2) == 0 {
        // the receiver's data are as many as the guest's window lets out
        plan.acks = Direction {
            delay_us: plan.acks.delay_us,
            packet_us: plan.data.packet_us,
            ..Direction::default()
        };
    }
    (hosts, plan)
}

/// Returns the policy of T.
pub(crate) fn policy(law: Law, profile: u32, plan: &Plan) -> Policy {
    Policy {
        profile: profile as u8,
        ..rfc_policy(law, plan.initial_window_segments)
    }
}

/// Runs one flow.
pub(crate) fn flow(number: u64, law: Law, profile: u32, receivers: Receivers) -> Findings {
    let (hosts, plan) = drawn(number, law, receivers);
    let label = format!("flow {number} of {law:?}, profile {profile}, {receivers:?}");
    let mut judge = Judge::new(label, &plan);
    let translator = Translator::new(COMPILED, policy(law, profile, &plan), false);
    World::new(&plan, &hosts, translator, &mut judge).run();
    judge.findings
}
