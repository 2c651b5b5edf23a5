//! A port is detached under marks: until the last flow with ECN has ended, each mark on its peer's data is
//! answered; then the programs go by themselves. A control without the draining shows the harm.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use uc_live::in_peace;

use crate::common::by_hand::packets;
use crate::common::marked::{Counts, LONGER, Manner, Talk, network};
use crate::common::routed::Routed;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{UC, success};

const ROUNDS: usize = 10;
/// Flows of a round, unless `UC_FLOWS` is given: the guest opens one half, and the server the other.
const FLOWS: usize = 8;
/// Shortest duration of each part of a round.
const PART: Duration = Duration::from_millis(300);
/// How long after the last flow's end the programs may stay.
const GONE_WITHIN: Duration = Duration::from_secs(2);

struct Site {
    net: Routed,
    sandbox: Sandbox,
    flows: usize,
}

impl Site {
    fn new() -> Option<Self> {
        let net = network()?;
        // Marks the longer messages and counts them; counts the guest's ECT packets.
        net.nft(&format!(
            "table ip t {{ chain c {{ type filter hook forward priority 0; \
             {LONGER} counter ip ecn set ce comment \"marks\"; \
             ip saddr 10.1.0.2 ip ecn ect0 counter comment \"ect\"; }}; }}"
        ));
        let given = std::env::var("UC_FLOWS").ok();
        Some(Self {
            net,
            sandbox: Sandbox::with_run(),
            flows: given.map_or(FLOWS, |given| given.parse().expect("a number")),
        })
    }

    /// Returns how flows talk: all together send as many messages as a few would.
    fn manner(&self) -> Manner {
        Manner {
            flows: self.flows / 2,
            answer: 1,
            pause: Duration::from_micros(250) * self.flows as u32,
        }
    }

    /// Waits until each flow has had some marks.
    fn pass_a_part(&self) {
        thread::sleep(PART.max(15 * self.manner().pause));
    }

    fn uc(&self, arguments: &[&str]) -> String {
        success(self.sandbox.uc(&self.net.host, arguments))
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.uc(&[command, "--json"])).unwrap()
    }

    /// Attaches the port, lets flows begin, and detaches the port with these arguments. Returns the flows
    /// and what `uc detach` has printed.
    fn detach_under_marks(&self, via: &str, arguments: &[&str]) -> (Talk, String) {
        self.uc(&["attach", "port0", "--via", via]);
        let flows = Talk::open(&self.net, self.manner());
        self.pass_a_part();
        let told = self.uc(arguments);
        flows.turn();
        (flows, told)
    }

    /// Checks that the port drains, and that the guest's packets are ECT no more.
    fn assert_drains(&self) {
        let ect = self.net.counted("ect");
        self.pass_a_part();
        assert_eq!(self.net.counted("ect"), ect, "the guest's packets are ECT");
        let seen = self.json("status");
        let port = &seen["ports"][0];
        assert_eq!(port["draining"], self.flows, "{seen}");
        assert_eq!(port["rules_in_force"], 0, "{seen}");
        assert_eq!(seen["in_force"], true, "{seen}");
    }

    fn wait_until_clean(&self) -> Duration {
        let began = Instant::now();
        while !self.sandbox.is_clean() {
            assert!(began.elapsed() < GONE_WITHIN, "{:?}", self.sandbox.pins());
            thread::sleep(Duration::from_millis(20));
        }
        began.elapsed()
    }
}

#[test]
fn live_each_mark_is_answered_until_the_last_flow_of_a_port_that_drains_has_ended() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        for round in 0..ROUNDS {
            let via = ["tcx", "clsact"][round % 2];
            let marks = site.net.counted("marks");
            let (flows, told) = site.detach_under_marks(via, &["detach", "port0"]);
            let drains = format!("port0: drains: {} flows", site.flows);
            assert!(told.starts_with(&drains), "{told}");
            site.assert_drains();
            let counts: Counts = flows.end().into_iter().sum();
            let gone = site.wait_until_clean();
            println!("{via}: {counts:?}, gone after {gone:?}");
            assert!(counts.marked_after > 30, "{via}: {counts:?}");
            assert_eq!(counts.unanswered, 0, "{via}: {counts:?}");
            assert_eq!(site.net.counted("marks") - marks, counts.marked, "{via}");
        }
    });
}

#[test]
fn live_a_port_that_is_attached_again_while_it_drains_translates_its_flows() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        let (flows, _) = site.detach_under_marks("auto", &["detach", "port0"]);
        site.assert_drains();
        let told = site.uc(&["attach", "port0"]);
        assert!(told.starts_with("port0: attached"), "{told}");
        let (ect, coarse) = (
            site.net.counted("ect"),
            packets(&site.json("flows"), "coarse_window"),
        );
        site.pass_a_part();
        assert!(
            site.net.counted("ect") > ect,
            "the guest's packets are ECT again"
        );
        assert_eq!(packets(&site.json("flows"), "coarse_window"), coarse);
        let status = site.json("status");
        assert_eq!(status["ports"][0]["draining"], Value::Null, "{status}");
        let counts: Counts = flows.end().into_iter().sum();
        assert_eq!(counts.unanswered, 0, "{counts:?}");
        site.uc(&["detach", "port0", "--wait"]);
        assert!(site.sandbox.is_clean(), "{:?}", site.sandbox.pins());
    });
}

#[test]
fn live_a_process_that_waits_for_a_drain_keeps_no_lock_of_its_caller() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        site.uc(&["attach", "port0"]);
        let flows = Talk::open(&site.net, site.manner());
        let script = "exec 9>$1; flock 9; exec $0 detach port0";
        let mut shell = site.sandbox.command(&site.net.host, "sh");
        shell.args(["-c", script, UC]).arg(&lock);
        success(shell);
        assert_eq!(site.json("status")["ports"][0]["draining"], site.flows);
        let mut flock = Command::new("flock");
        flock.arg("--nonblock").arg(&lock).arg("true");
        success(flock);
        flows.end();
        site.wait_until_clean();
    });
}

#[test]
fn live_marks_are_unanswered_after_a_port_goes_at_once() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        let (flows, told) = site.detach_under_marks("auto", &["detach", "--all", "--now"]);
        assert!(site.sandbox.is_clean(), "{:?}", site.sandbox.pins());
        let left = format!("the peers of {} flows may go on sending ECT", site.flows);
        assert!(told.contains(&left), "{told}");
        site.pass_a_part();
        let counts: Counts = flows.end().into_iter().sum();
        println!("at once: {counts:?}");
        assert!(counts.marked_after > 10, "{counts:?}");
        assert!(counts.unanswered >= counts.marked_after, "{counts:?}");
    });
}
