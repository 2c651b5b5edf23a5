//! The processor's time for packets does not depend on how many of them are in a nanosecond.

use std::time::{Duration, Instant};

use crate::common::{endless, parcel};
use uc_net::{BitsPerSec, Delivery, Ecn, FatTree, HostId, LinkSpec, Nanos, Network};

const HOSTS: u32 = 128;

/// Returns the time for 300,000 packets between all hosts of a fat-tree, 20 of each host in flight, at
/// links of this rate. Propagation takes ever the same part of a round trip.
fn time_at(rate_gbit: u64) -> Duration {
    let rate = BitsPerSec::from_mbit(rate_gbit * 1_000);
    let link = LinkSpec::new(rate, Nanos(10_000 / rate_gbit), endless());
    let tree = FatTree::new(8, link.clone(), link.clone(), link).unwrap();
    let mut network = Network::new(&tree.topology, 1).unwrap();
    let other = |host: HostId| HostId((host.0 + 17) % HOSTS);
    for number in 0..20 {
        for host in (0..HOSTS).map(HostId) {
            let packet = parcel(number, 1_514, Ecn::Ect0);
            network
                .inject(Nanos::ZERO, host, other(host), packet)
                .unwrap();
        }
    }
    let began = Instant::now();
    for _ in 0..300_000 {
        let delivery = network.next_delivery(Nanos(u64::MAX), &mut ());
        let Delivery { at, host, packet } = delivery.expect("a packet in flight");
        network.inject(at, host, other(host), packet).unwrap();
    }
    began.elapsed()
}

#[test]
fn packets_take_as_long_on_fast_links_as_on_slow_ones() {
    // Of five rounds the quickest: what else the machine does only adds to a time.
    let mut quickest = [Duration::MAX; 3];
    for _ in 0..5 {
        for (quickest, rate_gbit) in quickest.iter_mut().zip([10, 100, 400]) {
            *quickest = time_at(rate_gbit).min(*quickest);
        }
    }
    // `make bench` measures the ratio; a list that is sorted by insertion took 7 and 14 times as long.
    let [slow, fast, fastest] = quickest;
    assert!(fast < slow * 2 && fastest < slow * 2, "{quickest:?}");
}
