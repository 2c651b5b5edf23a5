//! The guard against a real kernel that ignores its windows: a rule in the guest's namespace
//! rewrites every window that arrives.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use uc_core::{Policy, Reason};
use uc_lab::netns::Namespace;
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::{Translation, build};
use crate::common::by_hand::{PORT, SHARED, TOOLS, flows, go_on, one_guest, start};
use crate::common::sandbox::Sandbox;
use crate::common::transfer::{End, Transfer};
use crate::common::uc::{refusal, success};
use crate::common::{STACKS, experiment, guest, live_with};

/// A switch that marks from 20 packets on; a sender that ignores marks fills the rest of its
/// memory.
const MARKS: &str = "rate = \"20Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"500us\"\n\
     queue = { kind = \"threshold\", limit = \"300kB\", mark = \"30kB\" }";
const SETTLE: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(6);
/// Rules of nftables with which the guest sets every arriving window to 65535.
const WIDE_OPEN: &str = "add table inet greed; \
     add chain inet greed in { type filter hook input priority raw; }; \
     add rule inet greed in tcp flags & (syn | ack) == ack tcp window set 65535";

/// Results of two guests that share the link.
#[derive(Debug)]
struct Shared {
    /// The first guest's share of the delivered bytes.
    share: f64,
    /// Segments that the guard dropped.
    beyond: u64,
    bytes_per_second: f64,
}

fn ignore_windows(namespace: &Namespace) {
    let output = namespace.command("nft").arg(WIDE_OPEN).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn transfer(plan: &Plan, lab: &Lab, number: u16) -> Transfer {
    let index = usize::from(number);
    let from = End {
        namespace: &lab.wiring.guests[index],
        address: SocketAddr::new(plan.guests[index].address, 40_000),
    };
    let to = End {
        namespace: &lab.wiring.servers[0],
        address: SocketAddr::new(plan.servers[0].address, 5001 + number),
    };
    Transfer::start(from, to)
}

/// Runs two guests under a law; the first may ignore its windows, and both may be guarded.
fn share(law: &str, offload: bool, ignores: bool, guard_segments: u8) -> Shared {
    let law = format!("law = \"{law}\"");
    let both = guest("first", "legacy", &law) + &guest("second", "legacy", &law);
    let network = format!("{MARKS}\noffload = {offload}");
    let (plan, lab) = build(&experiment(1, &network, &both, STACKS));
    let guarded = |policy| Policy {
        guard_segments,
        ..policy
    };
    let translation = Translation::attach_with(&plan, &lab.wiring.hosts, 64, guarded);
    if ignores {
        ignore_windows(&lab.wiring.guests[0]);
    }
    let transfers = [transfer(&plan, &lab, 0), transfer(&plan, &lab, 1)];
    let delivered = || {
        let bytes = |transfer: &Transfer| transfer.delivered_bytes();
        [bytes(&transfers[0]), bytes(&transfers[1])]
    };
    std::thread::sleep(SETTLE);
    let (before, since) = (delivered(), Instant::now());
    std::thread::sleep(MEASURED);
    let (after, passed) = (delivered(), since.elapsed());
    let beyond = translation.count(Reason::BEYOND_EDGE);
    let counts = translation.counts();
    // A guest that ignores its windows loses data, and waits for its timer.
    for transfer in transfers {
        transfer.end();
    }
    let [first, second] = [0, 1].map(|index| (after[index] - before[index]) as f64);
    let shared = Shared {
        share: first / (first + second),
        beyond,
        bytes_per_second: (first + second) / passed.as_secs_f64(),
    };
    println!("{law}, offload {offload}, ignores {ignores}, guard {guard_segments}: {shared:?}");
    println!("{counts}");
    shared
}

fn does_not_affect(law: &str) {
    if !live_with(&["ip"]) {
        return;
    }
    in_peace(|| {
        for offload in [false, true] {
            let shared = share(law, offload, false, 1);
            assert_eq!(shared.beyond, 0, "{law}, offload {offload}: {shared:?}");
            assert!(shared.bytes_per_second > 0.8 * 2.5e6, "{law}: {shared:?}");
        }
    });
}

#[test]
fn live_a_guard_does_not_affect_a_guest_that_keeps_the_windows_of_ecn() {
    does_not_affect("ecn");
}

#[test]
fn live_a_guard_does_not_affect_a_guest_that_keeps_the_windows_of_dctcp() {
    does_not_affect("dctcp");
}

fn gains_nothing(law: &str) {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    in_peace(|| {
        let free = share(law, false, true, 0);
        assert!(free.share > 0.75 && free.beyond == 0, "{law}: {free:?}");
        let guarded = share(law, false, true, 1);
        // Its fair share is a half; runs of this length differ by a few hundredths.
        assert!(guarded.share < 0.55, "{law}: {guarded:?}");
        assert!(guarded.beyond > 0, "{law}: {guarded:?}");
    });
}

#[test]
fn live_ignoring_windows_of_ecn_gains_much_without_a_guard_and_nothing_with_one() {
    gains_nothing("ecn");
}

#[test]
fn live_ignoring_windows_of_dctcp_gains_much_without_a_guard_and_nothing_with_one() {
    gains_nothing("dctcp");
}

#[test]
fn live_attach_accepts_a_guard_and_a_dry_run() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let attach = |more: &[&str]| {
        let words = [&["attach", PORT], more].concat();
        sandbox.uc(&lab.wiring.hosts, &words)
    };
    refusal(
        attach(&["--law", "pass", "--guard", "1"]),
        &["--guard", "law pass"],
    );
    success(attach(&["--observe"]));
    let observed = start(&plan, &lab, 0);
    go_on(&[&observed], 500);
    let listing = flows(&sandbox, &lab);
    assert_eq!(listing["flows"][0]["observed"], true, "{listing}");
    let table = success(sandbox.uc(&lab.wiring.hosts, &["flows"]));
    assert!(table.contains("observed"), "{table}");
    observed.finish();
    success(sandbox.uc(&lab.wiring.hosts, &["detach", PORT]));
    success(attach(&["--guard", "1", "--guest-ecn", "translate"]));
    let guarded = start(&plan, &lab, 1);
    go_on(&[&guarded], 500);
    let listing = flows(&sandbox, &lab);
    assert_eq!(listing["flows"][0]["observed"], false, "{listing}");
    guarded.finish();
}
