//! What a call of the coupled congestion controller costs, in nanoseconds, in groups of one flow to a
//! hundred thousand. The group's size is not in the code, only in the memory that its flows take.
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

/// Nanoseconds of one of so many runs over flows in turn.
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
        "{:>8}{:>14}{:>24}",
        "flows", "update ns", "leave and join ns"
    );
    for flows in [1, 100, 10_000, 100_000] {
        let mut home = Home::new(flows);
        let update_ns = each_ns(runs, flows, |index| home.update(index));
        let storm_ns = each_ns(runs, flows, |index| {
            home.leave(index);
            home.join(index);
        });
        println!("{flows:>8}{update_ns:>14.1}{storm_ns:>24.1}");
    }
}
