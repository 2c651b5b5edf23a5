//! Events of laws: each that the shadow counts is told once, at its time and with its windows.

use uc_experiment::{LawEvent, LawEventKind};
use uc_sim::hosts::Side;
use uc_sim::{Plan, World};

use crate::common::{STAR, experiment, group, mixed, run};

/// Returns the number of events of these kinds.
fn count(events: &[LawEvent], kinds: &[LawEventKind]) -> u32 {
    let of_kinds = events.iter().filter(|event| kinds.contains(&event.kind));
    of_kinds.map(|event| event.times).sum()
}

#[test]
fn as_many_events_are_told_as_the_shadow_counts() {
    // A queue that is hardly longer than its marking threshold drops, too.
    let dropping = STAR.replace("1MB", "92kB");
    for (base, seed) in [(STAR, 3), (dropping.as_str(), 4)] {
        let groups = [
            group("native", "count = 3\nstack = \"legacy\""),
            group("virtual", "count = 3\nstack = \"legacy\"\nlaw = \"ecn\""),
        ];
        let experiment = experiment(base, &groups);
        let plan = Plan::new(&experiment, &experiment.cases[0], seed).expect("can be laid out");
        let mut world = World::new(&plan.scenario).expect("a world");
        let mut told = vec![Vec::new(); 6];
        for second in 1..=20 {
            world
                .run_until(uc_net::Nanos::from_secs(second))
                .expect("runs");
            let flows = world.applications.flows_mut().iter_mut();
            for (flow, events) in flows.zip(&mut told) {
                flow.take_events(&mut world.hosts, events);
            }
        }
        let mut losses = 0;
        for (flow, events) in world.applications.flows().iter().zip(&told) {
            assert!(events.is_sorted_by_key(|event| event.at_ns), "{events:?}");
            let slot = flow.open().next().expect("a connection");
            let port = &world.hosts.end(slot, Side::Guest).port;
            let Some(shadow) = port.as_ref().and_then(|port| port.flow()) else {
                assert_eq!(*events, [], "a flow without a law");
                continue;
            };
            assert!(shadow.cuts + shadow.losses > 5, "{shadow:?}");
            let cuts = [LawEventKind::Cut, LawEventKind::Floor];
            assert_eq!(count(events, &cuts), shadow.cuts);
            let lost = [LawEventKind::FastRetransmit, LawEventKind::Timeout];
            assert_eq!(count(events, &lost), shadow.losses);
            losses += shadow.losses;
        }
        assert_eq!(losses > 0, base != STAR, "{losses} losses");
    }
}

#[test]
fn a_record_has_the_events_of_closed_connections_too_and_cuts_reduce_the_window() {
    let mut groups = mixed();
    groups[2] = groups[2].replace("stack =", "law = \"ecn\"\nstack =");
    let record = run(&experiment(STAR, &groups), 5);
    let mut web = 0;
    for flow in &record.flows {
        let cuts = flow.events.iter();
        let cuts = cuts.filter(|event| event.kind == LawEventKind::Cut);
        for cut in cuts {
            // Of several between two samples the last may end above the first one's window.
            let is_less = cut.after_bytes < cut.before_bytes;
            assert!(is_less || cut.times > 1, "{cut:?}");
            // The law reduces its window to ssthresh.
            assert_eq!(cut.ssthresh_bytes, Some(cut.after_bytes), "{cut:?}");
            web += usize::from(flow.group == "web");
        }
        assert_eq!(
            flow.events.is_empty(),
            flow.group == "ecn",
            "{}",
            flow.group
        );
        let last = flow.samples.last().expect("a sample").at_ns;
        assert!(flow.events.iter().all(|event| event.at_ns <= last));
    }
    assert!(web > 3, "{web} cuts of connections that ended");
}
