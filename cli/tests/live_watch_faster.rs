//! The start `watch` makes pages faster: a burst of requests to real web servers (nginx) beside long flows,
//! as in HWatch's figure 11.

use uc_experiment::{Completion, RunRecord};
use uc_lab::{LivePorts, Namespaces};
use uc_live::in_peace;

use crate::common::{experiment, live_with, try_run};

const SERVERS: usize = 3;
const FLOWS: usize = 30;
const ROUNDS: usize = 3;
/// The whole burst takes this link 0.09 s, and its buffer holds 17 packets of its 720.
const NETWORK: &str = "rate = \"100Mbit\"\naccess_rate = \"200Mbit\"\ndelay = \"50us\"\n\
     queue = { kind = \"threshold\", limit = \"26kB\", mark = \"5200B\", not_ect = \"queue\" }";
const SECONDS: u32 = 5;
/// Minimum of the mean time of a page without `watch` ÷ that with it; 6 to 8 without any law, 4.7 with the
/// law alone.
const FASTER: f64 = 1.75;

fn run(guests: &str, receiver: &str) -> RunRecord {
    let epochs = format!(
        "[case.guests.application.epochs]\nsize = \"11500B\"\nrounds = {ROUNDS}\n\
         every = \"1200ms\"\nrequest = \"100B\"\n"
    );
    let guests = format!(
        "{receiver}\n[[case.guests]]\nname = \"long\"\ncount = 2\nstack = \"reno\"\n{guests}\n\
         [[case.guests]]\nname = \"short\"\ncount = {SERVERS}\nflows = {FLOWS}\nstack = \"reno\"\n\
         {guests}\nstart = \"500ms\"\n{epochs}"
    );
    let stack = "[stack.reno]\ncongestion_control = \"reno\"";
    let experiment = experiment(SECONDS, NETWORK, &guests, stack);
    try_run(&mut Namespaces, &experiment, &mut LivePorts::default()).unwrap()
}

/// Returns the mean time of a page in milliseconds; one that the run's end interrupted counts with its
/// time so far.
fn page_ms(case: &str, guests: &str, receiver: &str) -> f64 {
    let record = run(guests, receiver);
    let end_ns = u64::from(SECONDS) * 1_000_000_000;
    let pages = record.flows.iter().flat_map(|flow| &flow.completions);
    let time_ms = |page: &Completion| {
        let finished_ns = page.finished_ns.unwrap_or(end_ns);
        finished_ns.saturating_sub(page.started_ns) as f64 / 1e6
    };
    let times: Vec<f64> = pages.map(time_ms).collect();
    let mean_ms = times.iter().sum::<f64>() / times.len() as f64;
    println!("{case}: {mean_ms:.0} ms, {} pages", times.len());
    mean_ms
}

#[test]
fn live_pages_of_a_burst_are_faster_with_watch_than_with_the_law_alone_or_nothing() {
    if !live_with(&["nginx"]) {
        return;
    }
    in_peace(|| {
        let law = "law = \"dctcp\"";
        let start = format!("{law}\nstart_law = \"watch\"\nwatch = {{ pace = \"100Mbit\" }}");
        let receiver = "receiver_law = \"dctcp\"";
        let plain_ms = page_ms("plain", "", "");
        let alone_ms = page_ms("law dctcp", law, receiver);
        let watch_ms = page_ms("watch", &start, receiver);
        for (case, other_ms) in [("plain", plain_ms), ("law dctcp", alone_ms)] {
            let faster = other_ms / watch_ms;
            assert!(
                faster >= FASTER,
                "{case}: {other_ms:.0} ms, {faster:.2} of {watch_ms:.0} ms"
            );
        }
    });
}
