//! PVTCP is not a larger minimum RTO in disguise: data that was lost before a stall and would have
//! timed out in it is retransmitted within one tick of waking, and no running timer is changed
//! otherwise.

use std::sync::Arc;

use uc_core::steal::Policy;
use uc_net::{BitsPerSec, Fault, FaultRule, HostId, Length, LinkSpec, Nanos, QueueSpec, Star};
use uc_sim::World;
use uc_sim::consolidation::{Consolidation, Virtual};
use uc_sim::hosts::Side;
use uc_sim::hypervisor::{CorePlan, MachinePlan};
use uc_sim::scenario::{Application, FlowPlan, Scenario};
use uc_tcp::{Config, Connection, RtoMin, SpuriousTimeout};

const SEED: u64 = 11;
const TICK: Nanos = Nanos::from_millis(1);
const SLICE: Nanos = Nanos::from_millis(30);
const TURNS: u32 = 3;
/// The run begins with the guest's slice, so the guest wakes at each multiple of this.
const ROUND: Nanos = Nanos(SLICE.0 * TURNS as u64);
const ROUNDS: u64 = 400;
const MOMENT: Nanos = Nanos::from_micros(1);

/// Builds one bulk flow of a guest that has a third of a core, over a link that loses two of a
/// hundred packets.
fn scenario(pvtcp: Option<Policy>) -> Scenario {
    let quarter = Nanos::from_micros(90);
    let roomy = QueueSpec::DropTail {
        limit: Length::Packets(10_000),
    };
    let access = LinkSpec::new(BitsPerSec::from_mbit(1_000), quarter, roomy);
    let mut bottleneck = access.clone();
    bottleneck.faults = vec![FaultRule {
        chance_ppm: 20_000,
        flow: None,
        fault: Fault::Loss,
    }];
    let star = Star::new(1, access, bottleneck).expect("a star of one");
    let config = Config {
        sack: false,
        timestamps: false,
        rto_min: TICK,
        rto_min_of: RtoMin::Variation,
        spurious_timeout: SpuriousTimeout::Ignored,
        delayed_ack: None,
        ..Config::default()
    };
    let config = Arc::new(config);
    let guest = MachinePlan {
        tick: TICK,
        tick_offset: Nanos::ZERO,
        backlog_packets: 1_000,
        migration: None,
    };
    let core = CorePlan {
        turns: TURNS,
        slice: SLICE,
        jitter: Nanos::ZERO,
        seed: SEED,
        offset: Nanos::ZERO,
        boost: None,
        guests: vec![guest],
    };
    Scenario {
        seed: SEED,
        topology: star.topology,
        ip_header_bytes: 20,
        groups: Vec::new(),
        granter: None,
        consolidation: Consolidation {
            cores: vec![core],
            ..Consolidation::default()
        },
        flows: vec![FlowPlan {
            name: "flow".to_owned(),
            guest: HostId(0),
            receivers: vec![star.receiver],
            guest_config: Arc::clone(&config),
            receiver_config: config,
            policy: None,
            dupacks: None,
            hold: None,
            receiver_policy: None,
            start_policy: None,
            membership: None,
            virtual_part: Virtual {
                machine: Some(0),
                pvtcp,
                receiver_pvtcp: None,
            },
            stop: None,
            start: Nanos::ZERO,
            application: Application::Bulk,
        }],
    }
}

/// Returns the guest's end at `moment`.
fn guest(world: &mut World, moment: Nanos) -> &Connection {
    world.run_until(moment).expect("a run");
    let flow = &world.applications.flows()[0];
    let slot = flow.open().next().expect("a connection");
    &world.hosts.end(slot, Side::Guest).connection
}

/// Counts of a run's stalls by outcome.
#[derive(Debug, Default)]
struct Stalls {
    /// Stalls in which a timer was due, and nothing that had arrived meanwhile answered it.
    lost: u32,
    /// Lost stalls with a retransmission at the time of waking.
    repaired_on_waking: u32,
    /// Lost stalls with a retransmission by the next tick.
    repaired_by_next_tick: u32,
    /// Stalls in which a timer was due, and the answer had arrived.
    answered: u32,
    /// Answered stalls with a timeout all the same.
    mistaken: u32,
}

fn stalls(pvtcp: Option<Policy>) -> Stalls {
    let mut world = World::new(&scenario(pvtcp)).expect("a sound scenario");
    let mut found = Stalls::default();
    for round in 1..ROUNDS {
        let wakes = Nanos(ROUND.0 * round);
        let before = guest(&mut world, Nanos(wakes.0 - ROUND.0 + SLICE.0 + MOMENT.0));
        let (pending, then) = (before.retransmission_deadline(), *before.totals());
        if pending.is_none_or(|at| at > wakes) {
            continue;
        }
        let awake = *guest(&mut world, Nanos(wakes.0 + MOMENT.0)).totals();
        let later = *guest(&mut world, Nanos(wakes.0 + TICK.0 + MOMENT.0)).totals();
        if awake.acknowledged_bytes > then.acknowledged_bytes {
            found.answered += 1;
            found.mistaken += u32::from(awake.timeouts > then.timeouts);
        } else {
            found.lost += 1;
            found.repaired_on_waking += u32::from(awake.retransmits > then.retransmits);
            found.repaired_by_next_tick += u32::from(later.retransmits > then.retransmits);
        }
    }
    found
}

#[test]
fn data_lost_in_a_stall_is_retransmitted_by_the_tick_after_waking() {
    let again = format!("seed {SEED}; cargo test -p uc-sim --test all stall_repair::");
    let (tcp, pvtcp) = (stalls(None), stalls(Some(Policy::paper())));
    assert!(tcp.lost > 20 && tcp.answered > 50, "{tcp:?}; {again}");
    assert!(pvtcp.lost > 20 && pvtcp.answered > 50, "{pvtcp:?}; {again}");
    assert_eq!(tcp.repaired_on_waking, tcp.lost, "{tcp:?}; {again}");
    assert_eq!(tcp.mistaken, tcp.answered, "{tcp:?}; {again}");
    assert_eq!(
        pvtcp.repaired_by_next_tick, pvtcp.lost,
        "{pvtcp:?}; {again}"
    );
    // Some were retransmitted by duplicate ACKs that had arrived; the others had to wait for the
    // tick.
    assert!(pvtcp.repaired_on_waking < pvtcp.lost, "{pvtcp:?}; {again}");
    assert_eq!(pvtcp.mistaken, 0, "{pvtcp:?}; {again}");
}
