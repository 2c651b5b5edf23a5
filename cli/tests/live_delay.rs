//! Law `delay` on a real kernel's port: it keeps a guest's queue at the target, with a peer and a
//! switch without ECN.

use std::time::{Duration, Instant};

use serde_json::Value;
use uc_live::in_peace;

use crate::common::bench::build;
use crate::common::by_hand::{PORT, TOOLS, flows, packets, start};
use crate::common::capture::{CWR, Capture, ECE, segments};
use crate::common::sandbox::Sandbox;
use crate::common::uc::{refusal, success};
use crate::common::{experiment, guest, live_with};

/// A switch that only drops, late; its idle round trip takes 5 ms.
const DEEP: &str = "rate = \"20Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"1ms\"\n\
     queue = { kind = \"droptail\", limit = \"200kB\" }";
const PLAIN: &str = "[stack.legacy]\ncongestion_control = \"reno\"\n\
     [stack.server]\ncongestion_control = \"reno\"\necn = false";
const RATE_BYTES: u64 = 20_000_000 / 8;
/// A target of 15 ms above the idle round trip, which is the queueing delay.
const TARGET: &str = "20ms";
const TARGET_QUEUE_BYTES: u64 = RATE_BYTES * 15 / 1_000;
const SECONDS: u64 = 4;

/// Measurements of a transfer of some seconds.
struct Seen {
    mean_queue_bytes: u64,
    rate: f64,
    flows: Option<Value>,
    ecn: usize,
}

fn transfer(law: &[&str]) -> Seen {
    let text = guest("legacy", "legacy", "");
    let (plan, lab) = build(&experiment(1, DEEP, &text, PLAIN));
    let sandbox = Sandbox::new();
    if !law.is_empty() {
        let words = [&["attach", PORT, "--law"], law].concat();
        success(sandbox.uc(&lab.wiring.hosts, &words));
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::start(&lab.wiring.hosts, "up0", folder.path());
    let transfer = start(&plan, &lab, 0);
    std::thread::sleep(Duration::from_secs(1));
    let (before, since) = (transfer.delivered_bytes(), Instant::now());
    std::thread::sleep(Duration::from_secs(SECONDS));
    let bytes = (transfer.delivered_bytes() - before) as f64;
    let rate = bytes / since.elapsed().as_secs_f64() / RATE_BYTES as f64;
    let flows = (!law.is_empty()).then(|| flows(&sandbox, &lab));
    transfer.finish();
    let [file] = Capture::finish([capture]);
    let signals = segments(&file);
    let signals = signals
        .iter()
        .filter(|segment| segment.ecn != 0 || segment.has_any(ECE | CWR));
    let ecn = signals.count();
    let queue = lab.finish().unwrap().queue;
    // Over the time of the transfer, not the time of reading the capture.
    let busy = queue.iter().map(|sample| sample.backlog_bytes);
    let bytes: Vec<u64> = busy.filter(|bytes| *bytes > 0).collect();
    Seen {
        mean_queue_bytes: bytes.iter().sum::<u64>() / bytes.len().max(1) as u64,
        rate,
        flows,
        ecn,
    }
}

#[test]
fn live_a_guest_under_law_delay_keeps_the_queue_at_the_target_without_any_ecn() {
    let tools = [&TOOLS[..], &["tcpdump", "tshark"]].concat();
    if !live_with(&tools) {
        return;
    }
    in_peace(|| {
        let native = transfer(&[]);
        let delay = transfer(&["delay", "--target", TARGET]);
        let listing = delay.flows.unwrap();
        println!(
            "queue {} bytes at {:.2} of the rate; untranslated {} at {:.2}; {listing}",
            delay.mean_queue_bytes, delay.rate, native.mean_queue_bytes, native.rate
        );
        assert!(native.mean_queue_bytes > 2 * TARGET_QUEUE_BYTES);
        let around = TARGET_QUEUE_BYTES / 2..TARGET_QUEUE_BYTES * 3 / 2;
        assert!(around.contains(&delay.mean_queue_bytes), "{listing}");
        assert!(delay.rate > 0.85, "{}", delay.rate);
        assert_eq!(listing["flows"][0]["law"], "delay", "{listing}");
        assert_eq!(packets(&listing, "peer_refused_ecn"), 0, "{listing}");
        assert_eq!(delay.ecn, 0, "packets with a signal of ECN");
    });
}

#[test]
fn live_law_delay_is_refused_without_a_target_and_a_target_without_law_delay() {
    if !live_with(&TOOLS) {
        return;
    }
    let text = guest("legacy", "legacy", "");
    let (_plan, lab) = build(&experiment(1, DEEP, &text, PLAIN));
    let sandbox = Sandbox::new();
    let attach = |law: &[&str]| {
        let words = [&["attach", PORT, "--law"], law].concat();
        sandbox.uc(&lab.wiring.hosts, &words)
    };
    refusal(attach(&["delay"]), &["--target", "law delay"]);
    refusal(attach(&["delay", "--target", "0s"]), &["--target"]);
    let dctcp = attach(&["dctcp", "--target", "1ms"]);
    refusal(dctcp, &["--target", "--law delay"]);
    assert!(
        sandbox.pins().is_empty(),
        "refused, yet something is pinned"
    );
}
