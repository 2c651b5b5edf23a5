//! A network that knows who sends to whom takes packets ahead of their time, and shows the same events
//! at the same times, and the same links at every time.

use crate::common::{Journal, Told, disciplines, parcel};
use proptest::prelude::*;
use uc_net::{
    BitsPerSec, Dumbbell, Ecn, HostId, LeafSpine, Length, LinkId, LinkReport, LinkSpec, Nanos,
    Network, ParkingLot, QueueSpec, SingleSwitch, Topology,
};

/// An injection: gap in steps of half a packet's time, the pair, whether it is the second host that
/// sends, size.
type Injection = (u64, usize, bool, u32);

fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let gap = prop_oneof![4 => Just(0u64), 2 => 0..9u64, 1 => 0..60u64];
    let size = prop_oneof![Just(1_250u32), Just(625), 60..1_515u32];
    prop::collection::vec((gap, 0..64usize, any::<bool>(), size), 1..100)
}

fn topologies(access: &LinkSpec, trunk: &LinkSpec) -> Vec<Topology> {
    let (access, trunk) = (access.clone(), trunk.clone());
    vec![
        SingleSwitch::new(5, access.clone(), trunk.clone())
            .unwrap()
            .topology,
        Dumbbell::new(3, access.clone(), trunk.clone())
            .unwrap()
            .topology,
        ParkingLot::new(&[2, 1, 2], access.clone(), trunk.clone())
            .unwrap()
            .topology,
        LeafSpine::new(&[2, 2], 2, access, trunk).unwrap().topology,
    ]
}

/// What a run shows: its events, and all links every 2.7 ms.
type Shown = (Vec<Told>, Vec<Vec<LinkReport>>);

fn run(
    topology: &Topology,
    injections: &[Injection],
    pairs: &[(HostId, HostId)],
    is_told: bool,
) -> Shown {
    let mut network = Network::new(topology, 1).unwrap();
    if is_told {
        let both = pairs
            .iter()
            .flat_map(|&(one, other)| [(one, other), (other, one)]);
        network.expect_only(both);
    }
    let (mut journal, mut reports, mut now) = (Journal::default(), Vec::new(), Nanos::ZERO);
    let links = topology.links().len() as u32;
    let mut until = |network: &mut Network<_>, journal: &mut Journal, end: Nanos| {
        loop {
            let look = Nanos(2_700_000 * reports.len() as u64);
            if look > end {
                break;
            }
            network.advance(look, journal);
            let report = |link| network.link(LinkId(link)).unwrap();
            reports.push((0..links).map(report).collect());
        }
        network.advance(end, journal);
    };
    for (number, &(steps, pair, is_second, size_bytes)) in (0..).zip(injections) {
        now += Nanos(500_000 * steps);
        until(&mut network, &mut journal, now);
        let (one, other) = pairs[pair % pairs.len()];
        let (from, to) = if is_second {
            (other, one)
        } else {
            (one, other)
        };
        let packet = parcel(number, size_bytes, Ecn::Ect0);
        network.inject(now, from, to, packet).unwrap();
    }
    until(&mut network, &mut journal, now + Nanos::from_millis(100));
    (journal.0, reports)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_network_that_takes_packets_ahead_of_their_time_shows_the_same(
        injections in injections(),
        pairs in prop::collection::vec((0..64usize, 0..64usize), 1..6),
        rates in prop::sample::select(vec![(10, 10), (10, 100), (100, 10)]),
    ) {
        for queue in disciplines() {
            let spec = |mbit, delay_us, queue: &QueueSpec| {
                let delay = Nanos::from_micros(delay_us);
                LinkSpec::new(BitsPerSec::from_mbit(mbit), delay, queue.clone())
            };
            let short = QueueSpec::DropTail { limit: Length::Packets(2) };
            // A long trunk has many packets on it whose arrivals at hosts are known.
            let (access, trunk) = (spec(rates.0, 250, &short), spec(rates.1, 5_000, &queue));
            for topology in topologies(&access, &trunk) {
                let hosts = topology.host_count();
                let pairs: Vec<(HostId, HostId)> = pairs.iter().map(|&(one, over)| {
                    let other = (one % hosts + 1 + over % (hosts - 1)) % hosts;
                    (HostId((one % hosts) as u32), HostId(other as u32))
                }).collect();
                let told = run(&topology, &injections, &pairs, true);
                let untold = run(&topology, &injections, &pairs, false);
                prop_assert!(!told.0.is_empty());
                prop_assert_eq!(told, untold, "{:?}, {:?}", queue, pairs);
            }
        }
    }
}

#[test]
fn a_packet_without_room_is_lost_although_there_is_room_when_its_time_comes() {
    // Two hosts send to one at twice its link's rate, then one of them after a pause. All are on the
    // trunk before the first arrives.
    let spec = |mbit, millis, packets| {
        let limit = Length::Packets(packets);
        let delay = Nanos::from_millis(millis);
        LinkSpec::new(
            BitsPerSec::from_mbit(mbit),
            delay,
            QueueSpec::DropTail { limit },
        )
    };
    let dumbbell = Dumbbell::new(2, spec(10, 1, 1), spec(100, 30, 100)).unwrap();
    let pairs = [0, 1].map(|sender| (dumbbell.left[sender], dumbbell.right[0]));
    let both = |_| [(2, 0, false, 1_250), (0, 1, false, 1_250)];
    let mut injections: Vec<Injection> = (0..5).flat_map(both).collect();
    injections.push((12, 0, false, 1_250));
    let told = run(&dumbbell.topology, &injections, &pairs, true);
    let losses = told
        .0
        .iter()
        .filter(|told| matches!(told, Told::Dropped(..)));
    assert!(losses.count() > 2);
    assert_eq!(told, run(&dumbbell.topology, &injections, &pairs, false));
}
