//! Two ways to drive a network, by time and from delivery to delivery, give the same events.

use crate::common::{Journal, Parcel, Told, disciplines, link_10_mbit, parcel};
use proptest::prelude::*;
use uc_net::{
    Delivery, Dumbbell, Ecn, Fault, FaultRule, HostId, LeafSpine, LinkId, LinkSpec, Nanos, Network,
    Observer, ParkingLot, QueueSpec, Star, Topology,
};

/// Number of times that a packet is answered.
const BOUNCES: u64 = 6;

/// An injection: gap in nanoseconds, sender, receiver, size.
type Injection = (u64, usize, usize, u32);

/// Generates injections whose gaps and sizes make many events coincide.
fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let gap = prop_oneof![2 => Just(0u64), 2 => (0..9u64).prop_map(|steps| steps * 500_000),
        1 => 0..3_000_000u64];
    let size = prop_oneof![Just(1_250u32), Just(625), 60..1_515u32];
    prop::collection::vec((gap, 0..64usize, 0..64usize, size), 1..120)
}

fn spec(queue: QueueSpec, is_faulty: bool) -> LinkSpec {
    let mut spec = link_10_mbit(queue);
    let rule = |chance_ppm, fault| FaultRule {
        chance_ppm,
        flow: None,
        fault,
    };
    if is_faulty {
        let hold = Nanos::from_millis(3);
        spec.faults = vec![
            rule(20_000, Fault::Loss),
            rule(50_000, Fault::Duplicate),
            rule(100_000, Fault::Reorder { hold }),
        ];
    }
    spec
}

/// Builds every topology.
fn topologies(spec: &LinkSpec) -> Vec<Topology> {
    vec![
        Star::new(4, spec.clone(), spec.clone()).unwrap().topology,
        Dumbbell::new(3, spec.clone(), spec.clone())
            .unwrap()
            .topology,
        ParkingLot::new(&[2, 1, 2], spec.clone(), spec.clone())
            .unwrap()
            .topology,
        LeafSpine::new(&[2, 2], 2, spec.clone(), spec.clone())
            .unwrap()
            .topology,
    ]
}

/// Returns the answer to a packet that reached `host`, half as long; `None` after the last bounce.
fn answer(host: HostId, packet: &Parcel, hosts: u32) -> Option<(HostId, Parcel)> {
    let turn = packet.number % (BOUNCES + 1);
    let answer = parcel(packet.number + 1, packet.size_bytes / 2 + 30, Ecn::Ect0);
    let peer = (host.0 + 1 + turn as u32 % (hosts - 1)) % hosts;
    (turn < BOUNCES).then_some((HostId(peer), answer))
}

/// Injects the external traffic at its times; `run` advances the network to a time.
fn drive(
    topology: &Topology,
    injections: &[Injection],
    seed: u64,
    mut run: impl FnMut(&mut Network<Parcel>, Nanos, &mut Journal),
) -> (Vec<Told>, Nanos) {
    let hosts = topology.host_count();
    let mut network = Network::new(topology, seed).unwrap();
    let (mut journal, mut now) = (Journal::default(), Nanos::ZERO);
    for (number, &(gap_ns, from, over, size_bytes)) in (0..).zip(injections) {
        now += Nanos(gap_ns);
        run(&mut network, now, &mut journal);
        let (from, over) = (from % hosts, 1 + over % (hosts - 1));
        let to = HostId(((from + over) % hosts) as u32);
        let packet = parcel(number * (BOUNCES + 1), size_bytes, Ecn::Ect0);
        network
            .inject(now, HostId(from as u32), to, packet)
            .unwrap();
    }
    run(&mut network, Nanos::from_secs(1_000), &mut journal);
    (journal.0, network.clock())
}

/// Advances from event to event, and answers what has arrived when all events of that time are
/// over.
fn by_time(network: &mut Network<Parcel>, until: Nanos, journal: &mut Journal, hosts: u32) {
    while let Some(at) = network.next_event().filter(|&at| at <= until) {
        let told = journal.0.len();
        network.advance(at, journal);
        for told in &journal.0[told..] {
            let Told::Delivered(at, host, packet) = told else {
                continue;
            };
            if let Some((to, answer)) = answer(*host, packet, hosts) {
                network.inject(*at, *host, to, answer).unwrap();
            }
        }
    }
    network.advance(until, journal);
}

struct Watcher<'a>(&'a mut Journal);

impl Observer<Parcel> for Watcher<'_> {
    fn dropped(&mut self, at: Nanos, link: LinkId, packet: &Parcel, reason: uc_net::DropReason) {
        let told = Told::Dropped(at, link, packet.clone(), reason);
        self.0.0.push(told);
    }

    fn marked(&mut self, at: Nanos, link: LinkId, packet: &Parcel) {
        self.0.0.push(Told::Marked(at, link, packet.clone()));
    }
}

/// Advances from delivery to delivery, and answers each at once.
fn by_delivery(network: &mut Network<Parcel>, until: Nanos, journal: &mut Journal, hosts: u32) {
    while let Some(Delivery { at, host, packet }) =
        network.next_delivery(until, &mut Watcher(&mut *journal))
    {
        assert_eq!(network.clock(), at);
        if let Some((to, answer)) = answer(host, &packet, hosts) {
            network.inject(at, host, to, answer).unwrap();
        }
        journal.0.push(Told::Delivered(at, host, packet));
    }
    assert_eq!(network.clock(), until);
}

proptest! {
    #[test]
    fn answering_at_once_gives_the_same_events_as_answering_after_all_events_of_that_time(
        injections in injections(), seed: u64, is_faulty: bool,
    ) {
        for queue in disciplines() {
            for topology in topologies(&spec(queue.clone(), is_faulty)) {
                let hosts = topology.host_count() as u32;
                let timed = drive(&topology, &injections, seed, |network, until, journal| {
                    by_time(network, until, journal, hosts);
                });
                let stepped = drive(&topology, &injections, seed, |network, until, journal| {
                    by_delivery(network, until, journal, hosts);
                });
                prop_assert!(!timed.0.is_empty());
                prop_assert_eq!(timed, stepped, "seed {}, {:?}", seed, queue);
            }
        }
    }
}

#[test]
fn an_empty_network_steps_to_the_limit() {
    let dumbbell = &topologies(&spec(disciplines().remove(0), false))[1];
    let mut network = Network::<Parcel>::new(dumbbell, 1).unwrap();
    assert_eq!(network.next_delivery(Nanos::from_millis(3), &mut ()), None);
    assert_eq!(network.clock(), Nanos::from_millis(3));
}
