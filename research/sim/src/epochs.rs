//! The start times of each flow's transfers, epoch by epoch.

use uc_experiment::{Application, Guests, exponential};
use uc_net::Nanos;
use uc_net::random::Stream;

/// Returns for each flow of a group the times at which it begins a transfer. In each epoch the flows begin one by one
/// in random order, the first at once. With a list of transfers, the times are the list's. Empty for a group without
/// epochs and lists.
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
        let mut order: Vec<usize> = (0..flows).collect();
        random.shuffle(&mut order);
        for flow in order {
            turns[flow].push(at);
            at += exponential(random, gap);
        }
    }
    turns
}
