//! The start times of each flow's transfers, epoch by epoch.

use uc_experiment::{Application, Guests};
use uc_net::Nanos;
use uc_net::random::Stream;

use crate::placement::shuffled;
use crate::random_times::exponential;

/// Returns the times at which each flow of a group begins a transfer, epoch by epoch; empty for a
/// group without epochs and lists. In each epoch the flows begin in random order, the first at once; by a
/// list at its times.
pub fn turns(group: &Guests, random: &mut Stream) -> Vec<Vec<Nanos>> {
    if let Application::List(_) = group.application {
        let times = |host| group.listed_from(host).iter().map(|(.., at)| *at).collect();
        return (0..group.count).map(times).collect();
    }
    let Application::Epochs {
        rounds, every, gap, ..
    } = group.application
    else {
        return Vec::new();
    };
    let flows = group.total_flows() as usize;
    let mut turns = vec![Vec::new(); flows];
    for round in 0..u64::from(rounds) {
        let mut at = group.start + Nanos(every.0.saturating_mul(round));
        for flow in shuffled((0..flows).collect(), random) {
            turns[flow].push(at);
            at += exponential(random, gap);
        }
    }
    turns
}
