//! What `uc status`, `uc flows`, `uc explain` and `uc top` show of real flows.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use uc_lab::Lab;

use crate::common::bench::wait_until;
use crate::common::by_hand::{PORT, TOOLS, flows, go_on, one_guest, packets, start};
use crate::common::sandbox::Sandbox;
use crate::common::uc::{outcome, success};
use crate::common::{RED1, live_with};

/// Runs a command with --json. Returns its exit status and the object, whatever the status.
fn json(sandbox: &Sandbox, lab: &Lab, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut all = arguments.to_vec();
    all.push("--json");
    let told = outcome(sandbox.uc(&lab.wiring.hosts, &all));
    let value = serde_json::from_str(&told.stdout);
    (
        told.status,
        value.unwrap_or_else(|error| panic!("{error}: {told:?}")),
    )
}

fn kinds(story: &Value) -> Vec<&str> {
    let events = story["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect()
}

#[test]
fn live_a_flows_history_has_its_events() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
    success(sandbox.uc(hosts, &["attach", PORT]));
    let first = start(&plan, &lab, 0);
    go_on(&[&first], 700);
    let (status, early) = json(&sandbox, &lab, &["explain", &first.source.to_string()]);
    assert_eq!(status, Some(0), "{early}");
    assert_eq!(kinds(&early)[..2], ["opened", "agreed"], "{early}");
    assert_eq!(early["agreed"]["ecn"], true, "{early}");
    go_on(&[&first], 3000);
    wait_until("the bottleneck marks", || {
        flows(&sandbox, &lab)["flows"][0]["cuts"].as_u64() > Some(0)
    });

    let row = &flows(&sandbox, &lab)["flows"][0];
    let name = row["name"].as_str().unwrap();
    // Found by its whole line, by parts of it, and by words of that line.
    let parts = format!(":{}", first.source.port());
    for words in [vec![name], vec![PORT, &parts], name.split(' ').collect()] {
        let (status, story) = json(&sandbox, &lab, &[vec!["explain"], words].concat());
        assert_eq!((status, &story["flow"]["name"]), (Some(0), &row["name"]));
        let told = kinds(&story)
            .into_iter()
            .filter(|kind| *kind == "cut")
            .count();
        assert!(told > 0, "{story}");
        assert_eq!(story["limit"]["by"], "law", "the guest has data: {story}");
    }
    let text = success(sandbox.uc(hosts, &["explain", name]));
    for sentence in [
        "NewReno that obeys ECN (RFC 3168); profile linux",
        "the receiver echoed a mark, and the law cut its window from",
        "held by    the law",
    ] {
        assert!(text.contains(sentence), "no {sentence:?} in\n{text}");
    }

    let second = start(&plan, &lab, 1);
    go_on(&[&first, &second], 500);
    let several = outcome(sandbox.uc(hosts, &["explain", PORT]));
    assert_eq!(several.status, Some(1), "{several:?}");
    for transfer in [&first, &second] {
        assert!(
            several.stdout.contains(&transfer.source.to_string()),
            "{several:?}"
        );
    }
    let none = outcome(sandbox.uc(hosts, &["explain", "203.0.113.7"]));
    assert_eq!(
        (none.status, none.stderr.as_str()),
        (Some(1), ""),
        "{none:?}"
    );
    first.finish();
    second.finish();
    let (_, ended) = json(&sandbox, &lab, &["explain", &parts]);
    assert_eq!(kinds(&ended).last(), Some(&"closed"), "{ended}");
    assert_eq!(ended["limit"]["by"], "closed");
}

#[test]
fn live_flows_are_sorted_filtered_and_measured() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
    success(sandbox.uc(hosts, &["attach", PORT]));
    let transfers = [start(&plan, &lab, 0), start(&plan, &lab, 1)];
    go_on(&[&transfers[0], &transfers[1]], 1000);
    let (_, seen) = json(&sandbox, &lab, &["flows", "--sort", "goodput"]);
    let rates: Vec<u64> = seen["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| flow["sent_bits_per_s"].as_u64().unwrap())
        .collect();
    assert_eq!(rates.len(), 2, "{seen}");
    assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
    let sum: u64 = rates.iter().sum();
    assert!(
        (2_000_000..=12_000_000).contains(&sum),
        "a link of 10 Mbit/s: {rates:?}"
    );
    let one = format!("law=ecn remote=:{} port={PORT}", 5002);
    let (status, seen) = json(&sandbox, &lab, &["flows", "--filter", &one]);
    assert_eq!(status, Some(0));
    assert_eq!(seen["flows"].as_array().unwrap().len(), 1, "{seen}");
    assert_eq!(seen["flows"][0]["guest"], transfers[1].source.to_string());
    let refused = outcome(sandbox.uc(hosts, &["flows", "--filter", "lwa=ecn"]));
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("did you mean `law`?"),
        "{refused:?}"
    );
    transfers.into_iter().for_each(|transfer| {
        transfer.finish();
    });
}

#[test]
fn live_a_passing_flow_is_explained_with_its_reason() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
    success(sandbox.uc(hosts, &["attach", PORT, "--law", "pass"]));
    let transfer = start(&plan, &lab, 0);
    go_on(&[&transfer], 300);
    let told = success(sandbox.uc(hosts, &["explain", &transfer.source.to_string()]));
    assert!(told.contains("is not translated"), "{told}");
    assert!(told.contains("no_policy"), "{told}");
    transfer.finish();
}

#[test]
fn live_without_an_agent_status_shows_what_is_pinned() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
    let status = || {
        json(
            &sandbox,
            &lab,
            &["status", "--socket", "/nowhere/agent.sock"],
        )
    };
    let (code, nothing) = status();
    assert_eq!(
        (code, &nothing["in_force"]),
        (Some(1), &false.into()),
        "{nothing}"
    );
    success(sandbox.uc(hosts, &["attach", PORT]));
    let transfer = start(&plan, &lab, 0);
    go_on(&[&transfer], 300);
    let (code, seen) = status();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(seen["agent"], Value::Null);
    assert_eq!(seen["ports"][0]["name"], PORT, "{seen}");
    assert_eq!(seen["ports"][0]["flows"], 1, "{seen}");
    transfer.finish();
}

#[test]
fn live_drops_of_a_strict_port_are_shown_at_the_port() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let (sandbox, hosts) = (Sandbox::new(), &lab.wiring.hosts);
    let under_way = start(&plan, &lab, 0);
    go_on(&[&under_way], 300);
    success(sandbox.uc(hosts, &["attach", PORT, "--law", "ecn", "--strict"]));
    let dropped = |seen: &Value| seen["ports"][0]["dropped"].as_u64().unwrap();
    wait_until("data of a flow under way is dropped", || {
        dropped(&flows(&sandbox, &lab)) > 0
    });
    let seen = flows(&sandbox, &lab);
    // the port's count is read before those of the reasons
    let reasons = ["beyond_edge", "strict_no_handshake"].map(|reason| packets(&seen, reason));
    assert!(dropped(&seen) <= reasons.iter().sum(), "{seen}");
    success(sandbox.uc(hosts, &["detach", PORT]));
    go_on(&[&under_way], 300);
    under_way.finish();
}

/// Arguments of `uc top` without an agent.
const LIVE: &str = "--interval 300 --socket /nowhere/agent.sock";

/// `uc top` in a terminal of its own, whose output is read as it arrives.
struct Terminal {
    script: Child,
    output: std::sync::mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn new(sandbox: &Sandbox, lab: &Lab, arguments: &str) -> Terminal {
        let uc = env!("CARGO_BIN_EXE_uc");
        // The process id, for signals to this process only.
        let line = format!(
            "stty cols 160 rows 40; sh -c 'echo process $$ .; exec {uc} top {arguments}'; \
             echo status $? .; stty -a"
        );
        let mut script = sandbox
            .command(&lab.wiring.hosts, "script")
            .args(["-q", "-c", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = script.stdout.take().unwrap();
        let (sender, output) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(bytes @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..bytes].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal {
            script,
            output,
            seen: String::new(),
        }
    }

    /// Waits until this text was drawn.
    fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.seen.contains(text) {
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(error) => panic!("{error}: no {text:?} in {:?}", self.seen),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        let stdin = self.script.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Returns the number after a word.
    fn number(&mut self, word: &str) -> i32 {
        self.wait_for(" .");
        let (_, rest) = self.seen.split_once(word).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Asserts that the program exited with 0 and restored the terminal.
    fn assert_ended(mut self) {
        self.wait_for("status 0 .");
        self.wait_for("echoctl"); // among the last words of `stty -a`
        let (_, after) = self.seen.rsplit_once("status 0 .").unwrap();
        let words: Vec<&str> = after.split_whitespace().collect();
        assert!(
            words.contains(&"icanon") && words.contains(&"echo"),
            "{after}"
        );
        assert!(
            self.seen.contains("\x1b[?1049l"),
            "the other screen is left"
        );
        drop(self.script.stdin.take());
        assert!(self.script.wait().unwrap().success());
    }
}

#[test]
fn live_top_draws_flows_shows_a_history_and_restores_the_terminal() {
    if !live_with(&[&TOOLS[..], &["script", "stty"]].concat()) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let sandbox = Sandbox::new();
    success(sandbox.uc(&lab.wiring.hosts, &["attach", PORT]));
    let transfer = start(&plan, &lab, 0);
    go_on(&[&transfer], 500);

    let transfer_end = transfer.source.to_string();
    let mut top = Terminal::new(&sandbox, &lab, LIVE);
    top.wait_for(&transfer_end);
    top.wait_for("bit/s");
    top.press("\r");
    top.wait_for("NewReno");
    top.press("q");
    top.assert_ended();

    let mut top = Terminal::new(&sandbox, &lab, LIVE);
    let process = top.number("process ");
    top.wait_for(&transfer.source.to_string());
    let process = nix::unistd::Pid::from_raw(process);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    top.assert_ended();

    let piped = outcome(sandbox.uc(&lab.wiring.hosts, &["top"]));
    assert_eq!(piped.status, Some(2), "{piped:?}");
    assert!(piped.stderr.contains("needs a terminal"), "{piped:?}");
    let recorded = outcome(sandbox.uc(&lab.wiring.hosts, &["top", "--record", "file"]));
    assert_eq!(recorded.status, Some(2), "{recorded:?}");
    assert!(
        recorded.stderr.contains("uc flows --json --rates"),
        "{recorded:?}"
    );

    transfer.finish();
}
