//! What a call of the coupled congestion controller costs, in nanoseconds, in groups of one flow to a hundred thousand:
//! an update of each flow in turn; and in storms, in which all of them join and then all leave. No call loops over the
//! flows of a group, so the group's size matters only by the memory that its flows take.
//!
//! `cargo run --release -p uc-core --example coupling [millions of calls]`

use std::time::Instant;

use uc_core::coupling::{Group, GroupPolicy, Guest, Member, Report, consts};

const MSS: u32 = 1460;
const GUESTS: usize = 16;

struct Home {
    group: Group,
    guests: [Guest; GUESTS],
    flows: Vec<Member>,
    now_ns: u64,
}

fn report(cwnd_bytes: u32) -> Report {
    Report {
        cwnd_bytes,
        ssthresh_bytes: 100 * MSS,
        flight_bytes: cwnd_bytes,
        used_bytes: cwnd_bytes,
        acked_bytes: MSS,
        srtt_us: 8000,
        mss_bytes: MSS as u16,
        state: consts::AVOIDANCE as u8,
        ..Report::default()
    }
}

impl Home {
    fn new(flows: usize) -> Home {
        let mut home = Home {
            group: Group::open(&GroupPolicy::default(), 1),
            guests: [Guest::default(); GUESTS],
            flows: vec![Member::default(); flows],
            now_ns: 1,
        };
        for index in 0..flows {
            home.join(index);
        }
        home
    }

    fn join(&mut self, index: usize) {
        self.now_ns += 100;
        let (guest, flow) = (&mut self.guests[index % GUESTS], &mut self.flows[index]);
        self.group
            .register(guest, flow, 1, &report(10 * MSS), self.now_ns);
    }

    fn update(&mut self, index: usize) {
        self.now_ns += 100;
        let (guest, flow) = (&mut self.guests[index % GUESTS], &mut self.flows[index]);
        let said = report(flow.given_bytes + 1);
        self.group.update(guest, flow, &said, self.now_ns);
    }

    fn leave(&mut self, index: usize) {
        self.now_ns += 100;
        let (guest, flow) = (&mut self.guests[index % GUESTS], &mut self.flows[index]);
        self.group.leave(guest, flow, self.now_ns);
    }
}

/// Returns the mean time in ns of `runs` calls of `run`, with the index of one flow after the other.
fn each_ns(runs: usize, flows: usize, mut run: impl FnMut(usize)) -> f64 {
    let started = Instant::now();
    for turn in 0..runs {
        run(turn % flows);
    }
    started.elapsed().as_nanos() as f64 / runs as f64
}

fn main() {
    let millions: usize = std::env::args()
        .nth(1)
        .and_then(|argument| argument.parse().ok())
        .unwrap_or(5);
    let runs = millions * 1_000_000;
    println!(
        "bytes of a group {}, a guest {}, a flow {}",
        size_of::<Group>(),
        size_of::<Guest>(),
        size_of::<Member>()
    );
    println!(
        "{:>8}{:>14}{:>14}{:>14}",
        "flows", "update ns", "join ns", "leave ns"
    );
    for flows in [1, 100, 10_000, 100_000] {
        let mut home = Home::new(flows);
        let update_ns = each_ns(runs, flows, |index| home.update(index));
        let (mut join_ns, mut leave_ns) = (0.0, 0.0);
        let storms = runs.div_ceil(flows);
        for _ in 0..storms {
            leave_ns += each_ns(flows, flows, |index| home.leave(index));
            join_ns += each_ns(flows, flows, |index| home.join(index));
        }
        let (join_ns, leave_ns) = (join_ns / storms as f64, leave_ns / storms as f64);
        println!("{flows:>8}{update_ns:>14.1}{join_ns:>14.1}{leave_ns:>14.1}");
    }
}
