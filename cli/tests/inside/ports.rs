//! The port's programs: attached by hand, then managed by a policy, replaced during transfers,
//! killed in between, and removed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::query::ProgInfoIter;
use serde_json::Value;

use super::site::{Site, clsact, tc};
use super::{kernel, timed, uc};
use crate::common::bench::patience;
use crate::common::by_hand::packets;
use crate::common::sandbox::relay;
use crate::common::transfer::Transfer;
use crate::common::uc::{outcome, success};

/// A port whose qdisc another program has created.
const FOREIGN: &str = "port3";
const EARLIER_BYTES_PER_S: u32 = 100_000;
/// Maximum number of instructions of a program that the verifier may follow: a quarter of its limit of a million,
/// because kernels that are not tested here may follow twice as many or more.
const VERIFIED_MAX: u32 = 250_000;
const PINS: &str = "/sys/fs/bpf/undercurrent";
const POLICY_FILE: &str = "/etc/undercurrent/undercurrent.toml";
/// Rules for other flows, which come first.
const OTHER_RULES: usize = 40;
const POLICY: &str = "[[tenant]]\nname = \"acme\"\nports = [\"port0\", \"port1\"]\n\
     [[tenant]]\nname = \"bolt\"\nports = \"port2\"\n\
     [[tenant]]\nname = \"corp\"\nports = [\"port3\", \"port4\"]\n\
     [[rule]]\ntenant = \"acme\"\nport = \"port0\"\nlaw = \"ecn\"\nshare = 3\n\
     [[rule]]\ntenant = \"acme\"\nlaw = \"dctcp\"\nshare = 1\n\
     [[rule]]\ntenant = \"bolt\"\nlaw = \"delay\"\nparameters = { target = \"2ms\" }\n\
     [[rule]]\ntenant = \"corp\"\nlaw = \"coupled\"\n";
/// A transfer without progress or marks for this long has failed; a multiple on a slow kernel.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time after the end of their last flow within which programs of draining ports must be gone; a multiple on a slow
/// kernel.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// Law of each tenant's flows under the policy.
const LAWS: [&str; 5] = ["ecn", "dctcp", "delay", "coupled", "coupled"];

/// The transfers, and their tenants.
pub struct Running<'a> {
    site: &'a Site,
    transfers: Vec<Transfer>,
}

impl<'a> Running<'a> {
    /// Starts a connection before any port is attached.
    pub fn new(site: &'a Site) -> Self {
        tc(&format!("qdisc add dev {FOREIGN} clsact"));
        // Through the slow part of the link, and slow enough to take little of an emulated CPU.
        let earlier = site.start_to(0, 1, 0);
        earlier.pace(EARLIER_BYTES_PER_S);
        Self {
            site,
            transfers: vec![earlier],
        }
    }

    fn add(&mut self, tenant: usize) {
        let number = u16::try_from(self.transfers.len()).unwrap();
        self.transfers.push(self.site.start(tenant, number));
    }

    /// Asserts that every transfer makes progress within `milliseconds`, on a slow kernel within a
    /// multiple; a transfer that lost a segment may need a timeout or two.
    pub fn go_on(&self, milliseconds: u64) {
        let delivered = || self.transfers.iter().map(Transfer::delivered_bytes);
        let (before, begun): (Vec<_>, _) = (delivered().collect(), Instant::now());
        std::thread::sleep(Duration::from_millis(milliseconds) * patience());
        for (transfer, before) in self.transfers.iter().zip(before) {
            while transfer.delivered_bytes() <= before + 10_000 {
                assert!(
                    begun.elapsed() < PATIENCE * patience(),
                    "{}: {before} to {}, {}",
                    transfer.source,
                    transfer.delivered_bytes(),
                    self.state(transfer)
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Describes the state for a failure message: the transfer's sender, the flows, and the queue
    /// of the server's link.
    fn state(&self, transfer: &Transfer) -> String {
        let queue = tc(&format!("-s qdisc show dev {}", self.site.server_port()));
        let seen = outcome(uc(&["flows", "--json"])).stdout;
        format!("{:?}\n{queue}{seen}", transfer.info())
    }

    /// Ends the transfers; everything that was sent must arrive.
    pub fn finish(self) {
        self.transfers.iter().for_each(Transfer::stop);
        for transfer in self.transfers {
            assert!(transfer.end().0 > 100_000);
        }
    }

    /// Asserts that the last transfers have these laws, and that each has a history.
    fn assert_laws(&self, laws: &[&str]) {
        let seen = flows();
        let first = self.transfers.len() - laws.len();
        for (transfer, law) in self.transfers[first..].iter().zip(laws) {
            let row = row(&seen, transfer);
            assert_eq!(
                (&row["law"], &row["stage"]),
                (&(*law).into(), &"translating".into())
            );
            let name = row["name"].as_str().unwrap();
            let story = success(uc(&["explain", "--json", name]));
            let story: Value = serde_json::from_str(&story).unwrap();
            assert!(!story["events"].as_array().unwrap().is_empty(), "{story}");
        }
    }
}

fn flows() -> Value {
    serde_json::from_str(&success(uc(&["flows", "--json"]))).unwrap()
}

fn row<'a>(flows: &'a Value, transfer: &Transfer) -> &'a Value {
    let rows = flows["flows"].as_array().unwrap();
    let guest = transfer.source.to_string();
    let row = rows.iter().find(|row| row["guest"] == guest);
    row.unwrap_or_else(|| panic!("no flow of {guest}: {flows}"))
}

/// Asserts that the kernel's verifier got through each program with room to spare. Linux 5.10 does
/// not say how many instructions it followed.
fn assert_verified() {
    if kernel() < (5, 16) {
        return;
    }
    for program in ProgInfoIter::default() {
        let (name, followed) = (program.name.to_string_lossy(), program.verified_insns);
        println!("{name}: {followed} instructions verified");
        assert!(
            followed > 0 && followed <= VERIFIED_MAX,
            "{name}: {followed}"
        );
    }
}

/// Attaches each law to a port of its own.
pub fn attach_by_hand(running: &mut Running<'_>) {
    timed("load and attach", || {
        success(uc(&["attach", "port0", "--flows-max", "256"]))
    });
    success(uc(&["attach", "port1", "--law", "dctcp"]));
    success(uc(&["attach", "port3", "port4", "--law", "coupled"]));
    assert_verified();
    let filters = clsact("port0");
    let is_old = kernel() < (6, 6);
    assert_eq!(
        filters.matches("direct-action").count(),
        if is_old { 2 } else { 0 },
        "{filters}"
    );
    for tenant in [0, 1, 3, 4] {
        running.add(tenant);
    }
    running.go_on(2000);
    let seen = flows();
    assert_eq!(seen["flows"].as_array().unwrap().len(), 4, "{seen}");
    assert!(packets(&seen, "translated") > 500, "{seen}");
    assert!(
        packets(&seen, "no_handshake") > 50,
        "the one before passes: {seen}"
    );
    running.assert_laws(&["ecn", "dctcp", "coupled", "coupled"]);
    let started = Instant::now();
    loop {
        let seen = flows();
        let cuts = |transfer: &Transfer| row(&seen, transfer)["cuts"].as_u64().unwrap();
        if running.transfers[1..]
            .iter()
            .all(|transfer| cuts(transfer) > 0)
        {
            break;
        }
        assert!(
            started.elapsed() < PATIENCE * patience(),
            "never marked: {seen}"
        );
        running.go_on(500);
    }
}

/// Applies a policy of many rules to the same ports.
pub fn keep_by_policy(running: &mut Running<'_>) {
    let rule = |number| format!("[[rule]]\nremote_port = {number}\nlaw = \"ecn\"\n");
    let others: String = (0..OTHER_RULES)
        .map(|number| rule(7000 + 2 * number))
        .collect();
    let text = format!("[agent]\nmetrics = \"none\"\n{others}{POLICY}");
    std::fs::create_dir_all(Path::new(POLICY_FILE).parent().unwrap()).unwrap();
    std::fs::write(POLICY_FILE, text).unwrap();
    timed("policy", || once(&[]));
    for tenant in 0..LAWS.len() {
        running.add(tenant);
    }
    running.go_on(1500);
    running.assert_laws(&LAWS);
    let seen = flows();
    let share = |back: usize| {
        let transfer = &running.transfers[running.transfers.len() - LAWS.len() + back];
        let row = row(&seen, transfer);
        assert!(row["rule"].as_u64().unwrap() >= OTHER_RULES as u64, "{row}");
        row["share_bytes"].as_u64()
    };
    assert!(
        share(0).is_some() && share(1).is_some() && share(2).is_none(),
        "{seen}"
    );
    let states = success(uc(&["status"]));
    assert!(states.contains("port2"), "{states}");
}

fn agent(more: &[&str]) -> Command {
    let mut command = uc(&["agent", "--once", "--config", POLICY_FILE]);
    command.args(more);
    command
}

/// Runs the agent once and asserts that the policy is in force.
fn once(more: &[&str]) {
    let done = outcome(agent(more));
    assert_eq!(done.status, Some(0), "{more:?}: {done:?}");
}

/// Replaces every port's programs during transfers, though the replacing process is killed.
pub fn replace(running: &mut Running<'_>) {
    let (before, filters, seen) = (versions(), clsact("port1"), flows());
    timed("a swap killed", killed_while_it_swaps);
    running.go_on(500);
    timed("a swap finished", || once(&[]));
    let after = versions();
    assert!(after.len() == 1 && after != before, "{after:?}");
    running.go_on(1000);
    let later = flows();
    assert_eq!(filters.is_empty(), kernel() >= (6, 6));
    assert!(
        filters.is_empty() || clsact("port1") != filters,
        "{filters}"
    );
    for transfer in &running.transfers[1..] {
        let cuts = |flows| row(flows, transfer)["cuts"].as_u64().unwrap();
        assert!(cuts(&later) >= cuts(&seen), "{seen} {later}");
    }
    running.add(1);
    running.go_on(1000);
    running.assert_laws(&["dctcp"]);
}

/// Kills an agent between two steps of a replacement of programs: it has pinned the new programs, and not yet removed
/// the old ones. In between ports get the new programs.
fn killed_while_it_swaps() {
    let mut killed = agent(&["--swap"]).stderr(Stdio::null()).spawn().unwrap();
    while versions().len() < 2 && killed.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(3));
    }
    killed.kill().unwrap();
    println!("killed: {:?}, {:?}", killed.wait().unwrap(), versions());
}

/// Returns the folders of program versions that are complete: that have their last pin.
fn versions() -> Vec<String> {
    let entries = std::fs::read_dir(PINS).unwrap().flatten();
    let whole = entries.filter(|entry| entry.path().join("to_guest").exists());
    let names = whole.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("programs-")).collect()
}

/// Upgrades from a version with another layout of the maps during transfers: each flow goes on.
pub fn upgrade(running: &Running<'_>) {
    let seen = flows();
    relay(Path::new(PINS));
    timed("flows carried", || once(&[]));
    let later = flows();
    for transfer in &running.transfers[1..] {
        let [before, after] = [&seen, &later].map(|flows| row(flows, transfer));
        assert_eq!(before["law"], after["law"]);
        assert!(
            after["cuts"].as_u64() >= before["cuts"].as_u64(),
            "{before} {after}"
        );
    }
    running.go_on(1000);
}

/// Writes the flows of a port and reads them again: the kernel runs the program that enters flows, which
/// knows all of them.
pub fn hand_over() {
    let [key, file] = ["/run/key", "/run/flows"];
    success(uc(&["watch", "--make-key", key]));
    let run = |way| outcome(uc(&["handover", way, file, "--key-file", key, "port1"]));
    let written = run("--out");
    assert_eq!(written.status, Some(0), "{written:?}");
    assert!(!written.stdout.starts_with("port1: 0 "), "{written:?}");
    let read = run("--in");
    assert_eq!(read.status, Some(0), "{read:?}");
    assert!(read.stdout.contains(" there already"), "{read:?}");
}

/// Detaches all ports, which drain: marks on what the server sends to the first tenant are still answered.
pub fn drain(running: &mut Running<'_>) {
    let site = running.site;
    let down = site.start_marked_down(running.transfers.len() as u16);
    let marks = |more: u32| {
        let (seen, started) = (down.info().delivered_ce, Instant::now());
        while down.info().delivered_ce < seen + more {
            let late = started.elapsed() > PATIENCE * patience();
            assert!(!late, "{seen} marks, then {}", running.state(&down));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    marks(1);
    let told = timed("detach", || success(uc(&["detach", "--all"])));
    assert!(told.contains("port0: drains: "), "{told}");
    marks(10);
    let status = success(uc(&["status"]));
    assert!(status.contains("drains: "), "{status}");
    running.transfers.push(down);
    // From now on the guests find the link's rate by losses.
    site.speed_up();
    running.go_on(3000);
}

/// Waits until the programs have gone by themselves; what belongs to another program must stay.
pub fn be_gone(site: &Site) {
    let started = Instant::now();
    while Path::new(PINS).exists() {
        let seen = || outcome(uc(&["status"]));
        let late = started.elapsed() > GONE_WITHIN * patience();
        assert!(!late, "{:?}", seen());
        std::thread::sleep(Duration::from_millis(20));
    }
    for port in site.ports() {
        let left = clsact(&port);
        if port == FOREIGN {
            assert!(left.starts_with("qdisc clsact"), "{port}: {left}");
            assert_eq!(left.lines().count(), 1, "{port}: {left}");
        } else {
            assert_eq!(left, "", "{port}");
        }
    }
}
