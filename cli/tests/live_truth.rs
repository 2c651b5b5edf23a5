//! `uc flows --truth`: the kernel's values of a container's socket are those of its own TCP_INFO, and
//! stand beside the shadow's.

use std::net::SocketAddr;

use serde_json::Value;

use crate::common::by_hand::{PORT, TOOLS, one_guest};
use crate::common::process::Process;
use crate::common::sandbox::Sandbox;
use crate::common::truth::{assert_truth, info, rested};
use crate::common::uc::success;
use crate::common::{DROPS, live_with};

fn kernels_values_under(law: &str) {
    let (plan, lab) = one_guest(DROPS);
    let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
    success(sandbox.uc(hosts, &["attach", PORT, "--law", law]));
    let address = SocketAddr::new(plan.servers[0].address, 5001);
    let ends = rested(&lab.wiring.guests[0], &lab.wiring.servers[0], address);
    let seen = || -> Value {
        let text = success(sandbox.uc(hosts, &["flows", "--truth", "--json"]));
        serde_json::from_str(&text).unwrap()
    };

    // A namespace without a name or a process: nothing is found, and said so.
    let hidden = seen();
    assert_eq!(hidden["flows"][0]["truth"], Value::Null, "{hidden}");
    assert_eq!(hidden["truth"]["flows"], 0, "{hidden}");
    let absent = &hidden["truth"]["absent"][0];
    assert_eq!(absent["port"], PORT, "{hidden}");
    assert!(
        absent["why"].as_str().unwrap().contains("link-netnsid"),
        "{hidden}"
    );

    // A container has a process.
    let mut container = lab.wiring.guests[0].command("sleep");
    container.arg("infinity");
    let container = Process::start(container);
    let told = seen();
    let flow = &told["flows"][0];
    assert!(assert_truth(flow, &info(&ends[0])), "nothing was lost");
    let summary = &told["truth"];
    assert_eq!(
        (&summary["flows"], &summary["absent"]),
        (&1.into(), &Value::Array(Vec::new()))
    );
    for ratio in ["cwnd", "ssthresh", "srtt"] {
        let spread = &summary[ratio];
        assert!(spread["median"].as_f64() > Some(0.0), "{told}");
        assert_eq!(spread["median"], flow["truth"]["ratio"][ratio], "{told}");
        assert_eq!(spread["median"], spread["worst"], "one flow: {told}");
        assert_eq!(spread["worst_flow"], flow["name"], "{told}");
    }
    let text = success(sandbox.uc(hosts, &["flows", "--truth"]));
    println!("{text}");
    let segments = info(&ends[0]).snd_cwnd * info(&ends[0]).snd_mss;
    for part in [
        "reno",
        &format!(" {segments} "),
        "cwnd, shadow / kernel: median",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }

    // Without the option nothing of it is there.
    let plain = success(sandbox.uc(hosts, &["flows", "--json"]));
    assert!(!plain.contains("truth"), "{plain}");
    drop(container);
}

#[test]
fn live_truth_under_law_ecn_is_the_sockets_own_tcp_info() {
    if live_with(&TOOLS) {
        kernels_values_under("ecn");
    }
}

#[test]
fn live_truth_under_law_dctcp_is_the_sockets_own_tcp_info() {
    if live_with(&TOOLS) {
        kernels_values_under("dctcp");
    }
}
