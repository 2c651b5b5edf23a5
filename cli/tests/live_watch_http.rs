//! The start `watch` for sending servers: pages of a real web server (nginx), fetched by real
//! clients, over both families.

use uc_experiment::RunRecord;
use uc_lab::{LivePorts, Namespaces};
use uc_live::in_peace;

use crate::common::{experiment, live_with, try_run};

const GUESTS: u32 = 2;
const FLOWS: u32 = 6;
const ROUNDS: u32 = 2;
const BYTES: u64 = 40_000;

fn pages(family: &str, law: &str, start: &str) -> RunRecord {
    let network = format!(
        "rate = \"20Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"500us\"\nfamily = \"{family}\"\n\
         queue = {{ kind = \"threshold\", limit = \"150kB\", mark = \"15kB\", \
         not_ect = \"queue\" }}"
    );
    let guests = format!(
        "receiver_law = \"{law}\"\n[[case.guests]]\nname = \"web\"\ncount = {GUESTS}\n\
         flows = {FLOWS}\nstack = \"reno\"\nlaw = \"{law}\"\n{start}\nstart = \"100ms\"\n\
         [case.guests.application.epochs]\nsize = \"{BYTES}B\"\nrounds = {ROUNDS}\n\
         every = \"1500ms\"\nrequest = \"200B\"\n"
    );
    let stack = "[stack.reno]\ncongestion_control = \"reno\"";
    let experiment = experiment(4, &network, &guests, stack);
    let record = try_run(&mut Namespaces, &experiment, &mut LivePorts::default()).unwrap();
    assert_eq!(record.flows.len(), (GUESTS * FLOWS) as usize);
    for flow in &record.flows {
        assert_eq!(flow.completions.len(), ROUNDS as usize, "{flow:?}");
        for page in &flow.completions {
            assert_eq!(page.bytes, BYTES);
            assert!(
                page.finished_ns.is_some_and(|at| at > page.started_ns),
                "{page:?}"
            );
        }
    }
    record
}

#[test]
fn live_pages_are_complete_from_a_server_whose_host_probes() {
    if !live_with(&["nginx"]) {
        return;
    }
    in_peace(|| {
        for family in ["ipv4", "ipv6"] {
            let start = "start_law = \"watch\"\nwatch = { pace = \"20Mbit\", idle = \"1ms\" }";
            let record = pages(family, "dctcp", start);
            let counters = record.counters;
            println!("{family}: {counters:?}");
            let count = |name: &str| counters.get(name).copied().unwrap_or(0);
            let arrived = count("watch_probe") + count("watch_probe-ce");
            // Of flows that begin together, one probes the path.
            assert!(
                arrived >= 10 * u64::from(GUESTS),
                "{family}: {arrived} probes"
            );
            assert!(
                count("watch_held") > u64::from(GUESTS),
                "{family}: requests wait their turn"
            );
            assert!(count("watch_window") > 0, "{family}");
            for bad in ["forged", "late", "replayed", "unknown", "truncated"] {
                assert_eq!(count(&format!("watch_probe-{bad}")), 0, "{family}: {bad}");
            }
            assert_eq!(
                count("watch_edit-failed") + count("watch_no-room"),
                0,
                "{family}"
            );
        }
    });
}

#[test]
fn live_pages_are_complete_without_law_and_watch() {
    if !live_with(&["nginx"]) {
        return;
    }
    in_peace(|| {
        let record = pages("ipv4", "pass", "");
        let watched = record
            .counters
            .keys()
            .find(|name| name.starts_with("watch_"));
        assert_eq!(watched, None);
    });
}
