//! `uc attach --share` on real kernels' ports (vCC's figure 12): five flows from one VM to another
//! of the same host, three of them, by TCP port, with a third of the others' weight. The guests'
//! TCP is Linux's Reno.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::build;
use crate::common::by_hand::{TOOLS, flows, go_on};
use crate::common::sandbox::Sandbox;
use crate::common::transfer::{End, Transfer};
use crate::common::uc::{refusal, success};
use crate::common::{experiment, guest, live_with};

/// The bandwidth–delay product is 100 kB; the queue holds the rest of the windows.
const HOST: &str = "rate = \"20Mbit\"\naccess_rate = \"80Mbit\"\ndelay = \"10ms\"\n\
     queue = { kind = \"droptail\", limit = \"1MB\" }";
const PLAIN: &str = "[stack.legacy]\ncongestion_control = \"reno\"\n\
     [stack.server]\ncongestion_control = \"reno\"\necn = true";
const TOTAL_BYTES: f64 = 192_000.0;
const MSS_BYTES: f64 = 1448.0;
/// Time after which windows must have their shares (a second in the paper's figure).
const SECOND: Duration = Duration::from_secs(1);

fn start(plan: &Plan, lab: &Lab, number: u16) -> Transfer {
    let end = |namespace, address, port| End {
        namespace,
        address: SocketAddr::new(address, port),
    };
    Transfer::start(
        end(
            &lab.wiring.guests[0],
            plan.guests[0].address,
            40_000 + number,
        ),
        end(
            &lab.wiring.servers[0],
            plan.servers[0].address,
            5001 + number,
        ),
    )
}

/// Measures over `during`: each transfer's share of the sum, and the sum in bytes per second.
fn parts(transfers: &[Transfer], during: Duration) -> (Vec<f64>, f64) {
    let delivered = || -> Vec<u64> { transfers.iter().map(Transfer::delivered_bytes).collect() };
    let (before, since) = (delivered(), Instant::now());
    std::thread::sleep(during);
    let pairs = delivered().into_iter().zip(before);
    let each: Vec<f64> = pairs
        .map(|(after, before)| (after - before) as f64)
        .collect();
    let all: f64 = each.iter().sum();
    let rate = all / since.elapsed().as_secs_f64();
    (each.iter().map(|bytes| bytes / all).collect(), rate)
}

/// Returns the shares of the port's flows by the number of their transfer.
fn shares(plan: &Plan, listing: &Value, count: u16) -> Vec<f64> {
    let share = |number: u16| {
        let remote = SocketAddr::new(plan.servers[0].address, 5001 + number).to_string();
        let mut rows = listing["flows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["remote"] == remote);
        row.unwrap_or_else(|| panic!("{remote}: {listing}"))["share_bytes"]
            .as_f64()
            .unwrap_or(0.0)
    };
    (0..count).map(share).collect()
}

fn check_parts(found: &[f64], weights: &[f64], slack: f64, what: &str) {
    let sum: f64 = weights.iter().sum();
    for (part, weight) in found.iter().zip(weights) {
        let ratio = part / (weight / sum);
        assert!(
            (ratio - 1.0).abs() <= slack,
            "{what}: {found:?}, weights {weights:?}"
        );
    }
}

#[test]
fn live_three_flows_share_equally_and_get_a_ninth_each_with_two_of_triple_weight() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        let (plan, lab) = build(&experiment(1, HOST, &guest("vm", "legacy", ""), PLAIN));
        let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
        let words =
            "attach port0 --law ecn --share 1 --share 5004=3 --share 5005=3 --share-total 192kB";
        success(sandbox.uc(hosts, &words.split(' ').collect::<Vec<&str>>()));
        let mut transfers: Vec<Transfer> =
            (0..3).map(|number| start(&plan, &lab, number)).collect();
        std::thread::sleep(3 * SECOND);
        let (alone, rate_alone) = parts(&transfers, 4 * SECOND);
        transfers.extend((3..5).map(|number| start(&plan, &lab, number)));
        std::thread::sleep(SECOND);
        let (together, rate) = parts(&transfers, 6 * SECOND);
        let listing = flows(&sandbox, &lab);
        println!("alone {alone:.4?}, together {together:.4?}; {rate_alone:.0} and {rate:.0} B/s");
        check_parts(&alone, &[1.0; 3], 0.05, "alone");
        check_parts(&together, &[1.0, 1.0, 1.0, 3.0, 3.0], 0.05, "together");
        assert!(
            (rate / rate_alone - 1.0).abs() <= 0.03,
            "{rate_alone}, {rate}: {listing}"
        );
        let shares = shares(&plan, &listing, 5);
        let sum: f64 = shares.iter().sum();
        assert!(
            (sum - TOTAL_BYTES).abs() <= 5.0 * MSS_BYTES,
            "{sum}: {listing}"
        );
        let divided: Vec<f64> = shares.iter().map(|share| share / sum).collect();
        check_parts(&divided, &[1.0, 1.0, 1.0, 3.0, 3.0], 0.01, "shares");
        for transfer in &transfers {
            assert_eq!(
                transfer.info().total_retrans,
                0,
                "nothing is dropped to get there"
            );
        }

        // A flow that ends leaves its share to others, and detaching leaves every connection.
        for transfer in transfers.split_off(3) {
            transfer.end();
        }
        std::thread::sleep(SECOND);
        let (alone, _) = parts(&transfers, 3 * SECOND);
        check_parts(&alone, &[1.0; 3], 0.05, "alone again");
        success(sandbox.uc(hosts, &["detach", "--all", "--now"]));
        assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
        go_on(&transfers.iter().collect::<Vec<_>>(), 2_000);
        for transfer in transfers {
            transfer.end();
        }
    });
}

#[test]
fn live_weights_are_refused_where_no_law_makes_windows() {
    if !live_with(&TOOLS) {
        return;
    }
    let (_, lab) = build(&experiment(1, HOST, &guest("vm", "legacy", ""), PLAIN));
    let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
    for (more, parts) in [
        (["--law", "pass"].as_slice(), ["--share", "law pass"]),
        (&["--law", "coupled"], ["--share", "law coupled"]),
        (&["--observe"], ["--observe", "remove --observe or --share"]),
        (&["--group-by-rate"], ["--group-by-rate", "remove --share"]),
    ] {
        let words = [&["attach", "port0", "--share", "2"], more].concat();
        refusal(sandbox.uc(hosts, &words), &parts);
    }
    assert!(
        sandbox.pins().is_empty(),
        "refused, yet something is pinned"
    );
}
