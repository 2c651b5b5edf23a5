//! A guest moves to another host while its connections rest: its veth is deleted, and a new one with the
//! same addresses leads to a second host. `uc handover` takes the state of its flows there. A control
//! without it shows the harm.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use uc_lab::netns::Namespace;
use uc_live::in_peace;

use crate::common::by_hand::{assert_same_windows, packets, windows};
use crate::common::marked::{Counts, LONGER, Manner, Talk, network};
use crate::common::routed::{Routed, connect, ip};
use crate::common::sandbox::Sandbox;
use crate::common::uc::{UC, outcome, refusal, success};

/// Flows that the guest opens, and as many that the server opens.
const FLOWS: usize = 50;
/// How long the flows talk before the move, and after it.
const PART: Duration = Duration::from_millis(1500);
const MANNER: Manner = Manner {
    flows: FLOWS,
    answer: 20_000,
    pause: Duration::from_millis(20),
};

/// Two hosts, of which the guest is behind the first.
struct Site {
    net: Routed,
    second: Namespace,
    sandboxes: [Sandbox; 2],
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Option<Self> {
        let net = network()?;
        let second = net.second_host();
        // Marks the longer messages, and some of the guest's data.
        let marks = format!(
            "table ip t {{ chain c {{ type filter hook forward priority 0; {LONGER} ip ecn set ce; \
             ip saddr 10.1.0.2 ip ecn ect0 numgen random mod 100 < 1 ip ecn set ce; }}; }}"
        );
        for host in [&net.host, &second] {
            let mut nft = host.command("nft");
            nft.arg(&marks);
            success(nft);
        }
        let folder = tempfile::tempdir().unwrap();
        let site = Self {
            net,
            second,
            sandboxes: [Sandbox::with_run(), Sandbox::with_run()],
            folder,
        };
        let key = site.path("key");
        site.uc(0, &["watch", "--make-key", &key]);
        Some(site)
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    /// Runs `uc` on the first host or the second.
    fn uc(&self, host: usize, arguments: &[&str]) -> String {
        let namespace = [&self.net.host, &self.second][host];
        success(self.sandboxes[host].uc(namespace, arguments))
    }

    /// Returns the output of `uc flows --json`, and each flow's ends with its window in bytes.
    fn flows(&self, host: usize) -> (Value, Vec<(String, f64)>) {
        let seen: Value = serde_json::from_str(&self.uc(host, &["flows", "--json"])).unwrap();
        let rows = windows(&seen);
        (seen, rows)
    }

    /// Runs `uc handover port0` with these arguments and the key.
    fn handover(&self, host: usize, way: &str) -> String {
        let (file, key) = (self.path("flows"), self.path("key"));
        self.uc(host, &["handover", way, &file, "--key-file", &key, "port0"])
    }

    /// Deletes the guest's interface, and makes one with the same MAC at the second host, which is down.
    fn unplug(&self) {
        let shown = ip(&self.net.guest, "-json link show dev eth0");
        let links: Value = serde_json::from_str(&shown).unwrap();
        let mac = links[0]["address"].as_str().unwrap();
        ip(&self.net.host, "link delete port0");
        connect(&self.second, "port0", &self.net.guest, "eth0");
        ip(&self.net.guest, &format!("link set eth0 address {mac}"));
        ip(&self.second, "address add 10.1.0.1/24 dev port0");
        ip(&self.second, "link set port0 up");
    }

    /// Lets the guest's packets pass by the second host.
    fn plug_in(&self) {
        ip(&self.net.guest, "address add 10.1.0.2/24 dev eth0");
        ip(&self.net.guest, "link set eth0 up");
        ip(&self.net.guest, "route add default via 10.1.0.1");
        ip(&self.net.server, "route add 10.1.0.0/24 via 10.3.0.1");
    }

    /// Lets flows talk under a law, moves the guest, with its flows or without them, and returns what
    /// the server has counted since, and the second host's `uc flows`.
    fn move_under(&self, law: &str, with_flows: bool) -> (Vec<Counts>, Value) {
        self.uc(0, &["attach", "port0", "--law", law]);
        let flows = Talk::open(&self.net, MANNER);
        thread::sleep(PART);
        flows.rest();
        let (_, before) = self.flows(0);
        assert_eq!(before.len(), 2 * FLOWS);
        let sent = self.handover(0, "--out");
        assert_eq!(sent, "port0: 100 flows written\n");
        assert_eq!(self.flows(0).1, before, "they stay as they are");
        self.unplug();
        self.uc(1, &["attach", "port0", "--law", law]);
        if with_flows {
            assert_eq!(self.handover(1, "--in"), "port0: 100 flows taken over\n");
            let (_, after) = self.flows(1);
            assert_same_windows(&before, &after);
        }
        self.plug_in();
        flows.turn();
        thread::sleep(PART);
        let seen = self.flows(1).0;
        (flows.end(), seen)
    }
}

#[test]
fn live_flows_that_are_handed_over_are_translated_at_the_second_host() {
    for law in ["ecn", "dctcp"] {
        let Some(site) = Site::new() else {
            return;
        };
        in_peace(|| {
            let (counts, seen) = site.move_under(law, true);
            let marked: u64 = counts.iter().map(|counts| counts.marked_after).sum();
            let served = counts
                .iter()
                .filter(|counts| counts.marked_after > 0)
                .count();
            println!("{law}: {marked} marks of {served} flows are answered after the move");
            assert_eq!(served, 2 * FLOWS);
            let unanswered: u64 = counts.iter().map(|counts| counts.unanswered_after).sum();
            assert_eq!(unanswered, 0, "{law}: of {marked}");
            assert_eq!(packets(&seen, "no_handshake"), 0, "{law}");
            assert!(packets(&seen, "translated") > 1000, "{law}");
        });
    }
}

#[test]
fn live_flows_that_are_not_handed_over_pass_untranslated_at_the_second_host() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        let (counts, seen) = site.move_under("ecn", false);
        assert_eq!(seen["flows"].as_array().unwrap().len(), 0);
        assert_eq!(packets(&seen, "translated"), 0);
        let marked: u64 = counts.iter().map(|counts| counts.marked_after).sum();
        let unanswered: u64 = counts.iter().map(|counts| counts.unanswered_after).sum();
        println!("without: {unanswered} of {marked} marks are not answered");
        assert!(marked > 50);
        assert_eq!(unanswered, marked);
    });
}

/// A damaged file, or one signed with another key, changes nothing; flows that are known are named.
#[test]
fn live_a_file_that_is_not_good_is_refused_and_changes_nothing() {
    let Some(site) = Site::new() else {
        return;
    };
    in_peace(|| {
        site.uc(0, &["attach", "port0"]);
        let flows = Talk::open(&site.net, MANNER);
        flows.rest();
        site.handover(0, "--out");
        let (file, key) = (site.path("flows"), site.path("key"));
        let good = fs::read(&file).unwrap();
        let run = |port: &str, key: &str| {
            let arguments = ["handover", "--in", &file, "--key-file", key, port];
            site.sandboxes[0].uc(&site.net.host, &arguments)
        };
        let again = success(run("port0", &key));
        assert_eq!(again, "port0: 0 flows taken over, 100 there already\n");
        let drains = site.uc(0, &["detach", "port0"]);
        assert!(drains.starts_with("port0: drains: "), "{drains}");
        refusal(run("port0", &key), &["'port0' drains", "uc attach port0"]);
        site.uc(0, &["attach", "port0"]);
        refusal(run("up0", &key), &["'up0' is not attached", "uc flows"]);
        refusal(run("none", &key), &["'none'", "ip link"]);
        let other = site.path("other");
        site.uc(0, &["watch", "--make-key", &other]);
        refusal(run("port0", &other), &[&file, "signed with another key"]);
        let mut changed = good.clone();
        changed[300] ^= 1;
        for (bytes, part) in [
            (&good[..good.len() - 1], "it was cut short"),
            (&good[..0], "does not begin with 'uc-flows'"),
            (&[&good[..], &good].concat(), "another follows it"),
            (&changed, "it was changed"),
        ] {
            fs::write(&file, bytes).unwrap();
            refusal(run("port0", &key), &[&file, part]);
        }
        assert_eq!(site.flows(0).1.len(), 2 * FLOWS);
        flows.turn();
        let counts = flows.end();
        assert_eq!(counts.len(), 2 * FLOWS);
    });
}

#[test]
fn handover_without_a_direction_or_a_key_is_refused() {
    for arguments in [
        &["handover", "port0"][..],
        &["handover", "port0", "--out", "-"],
        &["handover", "port0", "--key-file", "k"],
        &[
            "handover",
            "port0",
            "--out",
            "-",
            "--in",
            "-",
            "--key-file",
            "k",
        ],
    ] {
        let mut command = std::process::Command::new(UC);
        command.args(arguments);
        let told = outcome(command);
        assert_eq!(told.status, Some(2), "{told:?}");
    }
}
