//! Upgrades to another layout of the maps, and back, while flows carry data beside many that are idle: all go
//! on. For comparison, another port without a policy has as many flows with data.
//!
//! `UC_FLOWS` and `UC_IDLE` give the numbers of flows; `UC_OTHER_BUILD` the path of a `uc` whose maps have
//! another layout, in place of one that only is called another.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use uc_watch::ProbeKeys;

use crate::common::agent::{Agent, Installation, POLICY};
use crate::common::by_hand::packets;
use crate::common::live_with;
use crate::common::uc::success;
use crate::unnoticed::network::{Network, PACE_BYTES_PER_S, PORT, resent};

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];
const FLOWS: u16 = 20;
const IDLE: u32 = 2_000;
/// Upgrades, of which each second one is back to this build.
const UPGRADES: usize = 4;
/// How long flows go on before and after an upgrade.
const PART: Duration = Duration::from_millis(500);

/// Returns a file of flows in which the first one stands for so many, each with another remote address.
fn multiplied(file: &[u8], flows: u32, key: &Path) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (described, row_bytes) = (number(12), number(36));
    let (head, rest) = file.split_at(40 + described);
    let mut bytes = head.to_vec();
    bytes[16..20].copy_from_slice(&flows.to_le_bytes());
    for number in 1..=flows {
        let mut row = rest[..row_bytes].to_vec();
        // the last four bytes of the remote address
        row[32..36]
            .copy_from_slice(&(Ipv4Addr::new(10, 128, 0, 0).to_bits() + number).to_be_bytes());
        bytes.extend(row);
    }
    let tag = ProbeKeys::read(key).unwrap().own.sign(&bytes);
    bytes.extend(tag.to_le_bytes());
    bytes
}

fn number(variable: &str) -> Option<u32> {
    let given = std::env::var(variable).ok()?;
    Some(given.parse().expect("a number"))
}

fn seen(here: &Installation) -> Value {
    serde_json::from_str(&success(here.uc(&["flows", "--json"]))).unwrap()
}

/// Has an agent with another layout of the maps follow this one; `back`: this build again.
fn upgrade(here: &Installation, before: Agent, back: bool) -> Agent {
    let pid = before.pid().as_raw() as u32;
    before.end();
    let agent = match std::env::var("UC_OTHER_BUILD") {
        Ok(other) if !back => here.start_build(&other),
        Ok(_) => here.start(&[]),
        Err(_) => {
            here.sandbox.relay();
            here.start(&["--swap"])
        }
    };
    here.wait("the next agent", |state| state.pid != pid);
    here.wait_for(&[PORT]);
    agent
}

#[test]
fn live_idle_flows_and_those_with_data_go_over_to_another_layout_and_back() {
    if !live_with(&TOOLS) {
        return;
    }
    let flows = number("UC_FLOWS").map_or(FLOWS, |flows| flows as u16);
    let idle = number("UC_IDLE").unwrap_or(IDLE);
    let all = idle as usize + usize::from(flows);
    let network = Network::new();
    let policy = POLICY.replace("v*", "port*");
    let more = format!("flows_max = {}\n", 4 * all);
    let here = Installation::new(&network.host, &policy, &more);
    let mut agent = here.start(&[]);
    here.wait_for(&[PORT]);
    let pace = PACE_BYTES_PER_S * 20 / u32::from(flows).max(20);
    let transfers = [0, 1].map(|guest| network.paced_transfers(guest, flows, pace));
    std::thread::sleep(PART);

    let [key, file] = ["key", "flows"].map(|name| here.folder().join(name));
    let words = [&key, &file].map(|path| path.to_str().unwrap());
    let hand_over =
        |way: &str| success(here.uc(&["handover", way, words[1], "--key-file", words[0], PORT]));
    success(here.uc(&["watch", "--make-key", words[0]]));
    hand_over("--out");
    let of_one = std::fs::read(&file).unwrap();
    std::fs::write(&file, multiplied(&of_one, idle, &key)).unwrap();
    assert_eq!(
        hand_over("--in"),
        format!("{PORT}: {idle} flows taken over\n")
    );

    for number in 0..UPGRADES {
        let back = number % 2 == 1;
        agent = upgrade(&here, agent, back);
        std::thread::sleep(PART);
        if back {
            let seen = seen(&here);
            assert_eq!(
                seen["flows"].as_array().unwrap().len(),
                all,
                "upgrade {number}"
            );
            assert_eq!(packets(&seen, "no_handshake"), 0, "upgrade {number}");
        }
        println!(
            "upgrade {number}: sent again so far: {:?}",
            resent(&transfers)
        );
    }
    let log = here.log();
    for line in log.lines().filter(|line| line.contains("unseen_ms")) {
        println!("{line}");
    }
    assert_eq!(log.matches("unseen_ms").count(), UPGRADES, "{log}");
    agent.end();
    let [port, beside] = resent(&transfers);
    // Every byte arrives, intact and in order, and no connection is reset.
    let transfers: Vec<_> = transfers.into_iter().flatten().collect();
    for transfer in &transfers {
        transfer.stop();
        transfer.pace(u32::MAX);
    }
    for transfer in transfers {
        transfer.end();
    }
    // A machine that stands still makes flows of both ports retransmit.
    assert!(
        port <= beside + u32::from(flows) / 10,
        "sent again: {port}, beside {beside}"
    );
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}
