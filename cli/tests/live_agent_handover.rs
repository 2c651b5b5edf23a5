//! Flows of a port are written and taken over by requests on the agent's socket, as a program that migrates
//! guests makes them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use uc_live::in_peace;

use crate::common::agent::{Installation, POLICY};
use crate::common::marked::{Counts, LONGER, Manner, Talk, network};
use crate::common::uc::success;

/// Flows that the guest opens, and as many that the server opens.
const FLOWS: usize = 5;
const MANNER: Manner = Manner {
    flows: FLOWS,
    answer: 1000,
    pause: Duration::from_millis(10),
};
/// How long the flows talk before the move, and after it.
const PART: Duration = Duration::from_millis(500);

/// Sends one request to an agent; returns the status, the head and the body of its answer.
fn ask(here: &Installation, request: &str, body: &[u8]) -> (String, Vec<u8>) {
    let path = here.sandbox.path("/run/undercurrent/agent.sock");
    let mut stream = UnixStream::connect(path).unwrap();
    let length = body.len();
    let head = format!("{request} HTTP/1.0\r\nHost: agent\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(end.unwrap() + 4);
    (String::from_utf8(answer).unwrap(), body)
}

/// Sends flows for the port; returns the answer.
fn give(here: &Installation, flows: &[u8]) -> Value {
    let (_, body) = ask(here, "POST /handover/port0", flows);
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn live_flows_go_over_by_the_agents_sockets() {
    let Some(net) = network() else {
        return;
    };
    net.nft(&format!(
        "table ip t {{ chain c {{ type filter hook forward priority 0; {LONGER} ip ecn set ce; }}; }}"
    ));
    in_peace(|| {
        let policy = POLICY.replace("v*", "port0");
        let here = Installation::new(&net.host, &policy, "");
        let key = here.folder().join("key");
        let key = key.to_str().unwrap();
        success(here.uc(&["watch", "--make-key", key]));
        let agent = here.start(&[]);
        here.wait_for(&["port0"]);
        let (head, body) = ask(&here, "GET /handover/port0", b"");
        let refused = String::from_utf8(body).unwrap();
        assert!(head.starts_with("HTTP/1.0 409"), "{head}");
        assert!(refused.contains("[agent.watch]"), "{refused}");
        agent.end();

        here.write_policy(&format!(
            "[agent.watch]\nkey_file = \"{key}\"\npeers = \"10.0.0.0/8\"\n\n{policy}"
        ));
        let agent = here.start(&[]);
        here.wait_for(&["port0"]);
        let flows = Talk::open(&net, MANNER);
        thread::sleep(PART);
        flows.rest();
        let (head, file) = ask(&here, "GET /handover/port0", b"");
        assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        assert!(head.contains("uc-flows: 10\r\nuc-left: 0"), "{head}");
        let known = give(&here, &file);
        assert_eq!(known["flows"], 0, "{known}");
        assert_eq!(known["known"], 2 * FLOWS, "{known}");
        assert_eq!(known["left"], Value::Array(Vec::new()), "{known}");
        for (bytes, part) in [(&file[1..], "does not begin"), (&file[..99], "cut short")] {
            let refused = give(&here, bytes);
            assert!(
                refused["error"].as_str().unwrap().contains(part),
                "{refused}"
            );
        }

        success(here.uc(&["detach", "--now", "port0"]));
        success(here.uc(&["attach", "port0"]));
        here.wait_for(&["port0"]);
        let taken = give(&here, &file);
        assert_eq!(taken["flows"], 2 * FLOWS, "{taken}");
        assert_eq!(taken["left"], Value::Array(Vec::new()), "{taken}");
        flows.turn();
        thread::sleep(PART);
        let counts: Counts = flows.end().into_iter().sum();
        assert!(counts.marked_after > 10, "{counts:?}");
        assert_eq!(counts.unanswered_after, 0, "{counts:?}");
        assert!(here.log().contains("flows taken over"), "{}", here.log());
        agent.end();
        success(here.uc(&["detach", "--all", "--now"]));
        assert!(here.sandbox.is_clean());
    });
}
