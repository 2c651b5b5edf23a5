//! Under load the agent is killed and restarted, given other policies, and replaced by one that
//! replaces the programs: connections and their shadows continue undisturbed.
//!
//! For comparison, another port without a policy has as many connections.

use std::time::Duration;

use crate::common::agent::{Agent, Installation};
use crate::common::bench::wait_until;
use crate::common::kills::Kills;
use crate::common::live_with;
use crate::common::uc::success;
use crate::unnoticed::network::{FLOWS, Network, PORT, lost, resent};
use crate::unnoticed::pauses::Observer;
use crate::unnoticed::shadows::Shadows;

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];
const QUIET: Duration = Duration::from_secs(2);
/// Kills of an agent, unless `UC_KILLS` is given, and the time within which a moment is drawn.
const KILLS: u64 = 20;
const MOMENTS: Duration = Duration::from_millis(100);

fn policy(law: &str) -> String {
    format!(
        "[[tenant]]\nname = \"acme\"\nports = [\"port*\"]\n\n[[rule]]\ntenant = \"acme\"\n\
         law = \"{law}\"\n"
    )
}

#[test]
fn live_a_hundred_flows_survive_killed_agents_reloads_and_upgrades_without_noticing() {
    if !live_with(&TOOLS) {
        return;
    }
    let network = Network::new();
    let here = Installation::new(&network.host, &policy("dctcp"), "");
    let agent = here.start(&[]);
    here.wait_for(&[PORT]);
    let transfers = [network.transfers(0), network.transfers(1)];
    let mut shadows = Shadows::of(&here);
    shadows.go_on("at the start");
    let mut stalls = Vec::new();
    std::thread::scope(|scope| {
        let observer = Observer::watch(scope, &transfers);
        let mut count = |what: &str| {
            println!("{what}: sent again so far: {:?}", resent(&transfers));
            let [port, beside] = observer.take(what);
            // Flows of both ports seem to stall if this machine stops the observer between two looks.
            stalls.push((what.to_owned(), port.stalls.saturating_sub(beside.stalls)));
        };
        std::thread::sleep(QUIET);
        count("before");
        shadows.go_on("before the first kill");
        assert_eq!(
            shadows.learnt(),
            usize::from(FLOWS),
            "flows with a state to lose"
        );
        let agent = kills(&here, agent, &mut shadows);
        count("kills");
        twenty_reloads(&here, &mut shadows);
        count("20 reloads");
        let agent = ten_upgrades(&here, agent, &mut shadows);
        count("10 upgrades");
        std::thread::sleep(QUIET);
        count("after");
        agent.end();
    });
    shadows.go_on("at the end");
    println!(
        "sent again on the port and beside it: {:?}",
        resent(&transfers)
    );
    // A segment that a program drops never arrives, so its retransmission is no duplicate. The
    // report of a duplicate takes a round trip.
    wait_until(
        "every segment sent again on the port has arrived twice",
        || lost(&transfers[0]) == 0,
    );
    // Every byte arrives, intact and in order, and no connection is reset.
    for transfer in transfers.into_iter().flatten() {
        // The remaining data needn't be paced.
        transfer.pace(u32::MAX);
        transfer.end();
    }
    // No flow stalled while all flows on the other port made progress, but for as many of those.
    assert!(stalls.iter().all(|(_, stalls)| *stalls == 0), "{stalls:?}");
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}

fn kills(here: &Installation, mut agent: Agent, shadows: &mut Shadows<'_>) -> Agent {
    let mut kills = Kills::of(KILLS);
    while let Some(kill) = kills.another() {
        let (pid, number) = (agent.pid(), kill.number);
        shadows.go_on(&format!("before kill {number}"));
        kills.sleep(&kill, MOMENTS);
        agent.kill();
        shadows.go_on(&format!("without an agent {number}"));
        agent = here.start(&[]);
        here.wait("the next agent", |state| state.pid != pid.as_raw() as u32);
        let state = here.wait_for(&[PORT]);
        assert_eq!(state.counts.attached, 0, "it was attached all the time");
        shadows.go_on(&format!("kill {number}"));
    }
    agent
}

fn twenty_reloads(here: &Installation, shadows: &mut Shadows<'_>) {
    let first = here.wait_for(&[PORT]).policy.generation;
    for number in 1..=20 {
        here.write_policy(&policy(["dctcp", "pass"][number % 2]));
        here.wait("the next policy", |state| {
            state.policy.generation == first + number as u64
        });
        here.wait_for(&[PORT]);
        shadows.go_on(&format!("reload {number}"));
    }
}

/// Returns the version numbers of the pinned programs.
fn versions(here: &Installation) -> Vec<String> {
    let mut pins = here.sandbox.pins();
    pins.retain(|name| name.starts_with("programs-"));
    pins
}

fn ten_upgrades(here: &Installation, mut agent: Agent, shadows: &mut Shadows<'_>) -> Agent {
    let mut before = versions(here);
    assert_eq!(before.len(), 1, "{before:?}");
    for number in 0..10 {
        let pid = agent.pid();
        agent.end();
        // the last versions have another layout of the maps, to which events do not go over
        if number >= 7 {
            here.sandbox.relay();
            shadows.forget_events();
        }
        agent = here.start(&["--swap"]);
        here.wait("the next agent", |state| state.pid != pid.as_raw() as u32);
        here.wait_for(&[PORT]);
        let programs = versions(here);
        assert_eq!(programs.len(), 1, "upgrade {number}: {programs:?}");
        assert_ne!(programs, before, "upgrade {number}: other programs");
        before = programs;
        shadows.go_on(&format!("upgrade {number}"));
    }
    agent
}
