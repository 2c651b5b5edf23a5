//! Guests coupled by a host over channels that are slow, lose messages, or end.

mod model;

use model::{MS, SECOND, World};

const SEEDS: std::ops::Range<u64> = 1..6;

/// Computes Jain's index.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Returns the bytes acknowledged for each guest in a minute, from the tenth second on, over a
/// channel of that delay and loss.
fn minute(vms: &[(usize, u8)], seed: u64, delay_ns: u64, losses: u64) -> Vec<u64> {
    let mut world = World::new(vms, seed);
    (world.delay_ns, world.losses) = (delay_ns, losses);
    world.run_until(11 * SECOND);
    world.delivered_until(71 * SECOND)
}

#[test]
fn guests_with_one_flow_and_with_four_get_equal_shares_whatever_the_channel_loses_or_delays() {
    for seed in SEEDS {
        for (delay_ns, losses) in [(MS / 10, 0), (5 * MS, 0), (5 * MS, 300), (30 * MS, 100)] {
            let shares = minute(&[(1, 1), (4, 1)], seed, delay_ns, losses);
            let (fairness, sum) = (jain(&shares), shares.iter().sum::<u64>());
            println!("seed {seed}, {delay_ns} ns, {losses}/1000: {shares:?}, {fairness:.4}");
            assert!(fairness >= 0.99, "seed {seed}: {shares:?}");
            // of 75 MB
            assert!(sum >= 70_000_000, "seed {seed}: {shares:?}");
        }
    }
}

#[test]
fn shares_follow_the_operators_weights_whatever_the_number_of_flows() {
    for seed in SEEDS {
        let shares = minute(&[(4, 1), (2, 2), (1, 3)], seed, 5 * MS, 50);
        let sum: u64 = shares.iter().sum();
        println!("seed {seed}: {shares:?}");
        for (sixths, share) in (1..).zip(&shares) {
            let due = sum * sixths / 6;
            assert!(share.abs_diff(due) <= due / 33, "seed {seed}: {shares:?}");
        }
    }
}

#[test]
fn without_a_host_guests_share_like_independent_tcps() {
    // The two tests above would fail like this if the host did nothing.
    let uneven = SEEDS.filter(|&seed| {
        let mut world = World::new(&[(4, 1), (2, 2), (1, 3)], seed);
        world.host_alive = false;
        world.run_until(11 * SECOND);
        let shares = world.delivered_until(71 * SECOND);
        println!("seed {seed}: {shares:?}");
        shares[2] < 2 * shares[0]
    });
    assert_eq!(uneven.count() as u64, SEEDS.end - SEEDS.start);
}

#[test]
fn an_answer_is_followed_for_a_retransmission_timeout_and_no_longer() {
    for seed in SEEDS {
        let mut world = World::new(&[(1, 1), (4, 1)], seed);
        world.run_until(11 * SECOND);
        let follows = |world: &World| world.vms[0].follows_ns().max(world.vms[1].follows_ns());
        assert!(world.now_ns - follows(&world) < 100 * MS, "seed {seed}");
        // a dead host sends nothing more
        world.host_alive = false;
        world.run_until(world.now_ns + 10 * MS);
        let last_ns = follows(&world);
        let windows = [0, 1].map(|number| world.vms[number].window());
        world.run_until(world.now_ns + 10 * SECOND);
        assert_eq!(follows(&world), last_ns, "seed {seed}");
        let later = [0, 1].map(|number| world.vms[number].window());
        assert_ne!(windows, later, "seed {seed}: they go on by themselves");
        let gained = world.delivered_until(world.now_ns + 10 * SECOND);
        assert!(
            gained.iter().sum::<u64>() >= 11_000_000,
            "seed {seed}: {gained:?}"
        );
    }
}

#[test]
fn answers_that_come_later_than_a_retransmission_timeout_are_not_followed() {
    let mut world = World::new(&[(1, 1), (4, 1)], 1);
    world.delay_ns = 500 * MS;
    world.run_until(31 * SECOND);
    for vm in &world.vms {
        assert_eq!(vm.follows_ns(), 0);
    }
}

#[test]
fn a_guest_that_stops_reporting_becomes_an_independent_tcp_and_the_others_share_the_rest() {
    for seed in SEEDS {
        let mut world = World::new(&[(1, 1), (4, 1), (1, 1)], seed);
        world.run_until(11 * SECOND);
        world.vms[0].alive = false;
        world.run_until(21 * SECOND);
        assert!(world.now_ns - world.vms[0].follows_ns() > 9 * SECOND);
        let shares = world.delivered_until(81 * SECOND);
        println!("seed {seed}: {shares:?}");
        assert!(jain(&shares[1..]) >= 0.99, "seed {seed}: {shares:?}");
        assert!(shares[0] > 5_000_000, "seed {seed}: {shares:?}");
    }
}
