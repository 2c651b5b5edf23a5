//! Each law f with a native twin over each guest's TCP g that `uc-tcp` has: where g∘T sends exactly
//! what f sends, and what f costs where it does not.
//!
//! T only lowers windows. So every guest is exact until its own window is the smaller one, and the
//! price is by how much its own congestion control undercuts f's window.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use uc_core::COMPILED;
use uc_tcp::CongestionControl;

use crate::bottleneck::{INITIAL_WINDOW_SEGMENTS, Ratios, Senders, Writes, draw};
use crate::compare::{Limit, Outcome, Workspace, compare_hosts};
use crate::law::{Law, guest_hosts, native_hosts, rfc_policy};
use crate::plan::Plan;
use crate::world::Hosts;

/// Label in the table, and congestion control, of each guest. Guest `DCTCP` requests ECN, and T removes the
/// request; all other guests have no ECN.
const GUESTS: [(&str, CongestionControl); 7] = [
    ("NewReno", CongestionControl::NewReno),
    ("NewReno, counted by ACKs", CongestionControl::NewRenoByAcks),
    ("CUBIC", CongestionControl::Cubic),
    (
        "DCTCP",
        CongestionControl::Dctcp {
            gain_shift: 4,
            initial_alpha_q10: 1024,
        },
    ),
    ("HighSpeed", CongestionControl::HighSpeed),
    ("Illinois", CongestionControl::Illinois),
    ("Vegas", CongestionControl::Vegas),
];

/// One row of the table: a law over a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the law, f of the theorem min(f, g).
    pub law: String,
    /// Label of the guest's congestion control, g of the theorem.
    pub guest: String,
    /// Number of random cases, and of flows over either kind of bottleneck.
    pub cases: u64,
    /// Number of random cases without a difference.
    pub exact: u64,
    /// Exact cases that ran to their end.
    pub whole: u64,
    /// Exact cases that ended at the guest's own, smaller window.
    pub smaller: u64,
    /// Results over bottlenecks that only mark.
    pub marks: Ratios,
    /// Results over bottlenecks that mark and lose packets.
    pub losses: Ratios,
}

/// Number of rows of the table.
pub const ROWS: usize = Law::ALL.len() * GUESTS.len();

/// Measures the row of this number, below [`ROWS`].
pub fn row(seed: u64, cases: u64, number: usize) -> Row {
    let law = Law::ALL[number / GUESTS.len()];
    Row::measured(seed, cases, law, GUESTS[number % GUESTS.len()])
}

impl Row {
    fn measured(seed: u64, cases: u64, law: Law, (guest, tcp): (&str, CongestionControl)) -> Row {
        let strips_ecn = matches!(tcp, CongestionControl::Dctcp { .. });
        let f = native_hosts(law);
        let mut g = guest_hosts(law, strips_ecn);
        g.sender.congestion_control = tcp;
        let senders = Senders {
            f: &f,
            g: &g,
            policy: rfc_policy(law, INITIAL_WINDOW_SEGMENTS),
            strips_ecn,
        };
        let plans = || (0..cases).map(|number| draw(seed, number, Writes::Endless));
        let mut row = Row {
            law: law.name().to_owned(),
            guest: guest.to_owned(),
            cases,
            exact: 0,
            whole: 0,
            smaller: 0,
            marks: Ratios::measured(senders, plans().map(without_losses)),
            losses: Ratios::measured(senders, plans()),
        };
        row.compare(seed, law, (&g, strips_ecn));
        row
    }

    /// Compares segment by segment on the random cases of the theorems.
    fn compare(&mut self, seed: u64, law: Law, guest: (&Hosts, bool)) {
        let mut workspace = Workspace::default();
        for number in 0..self.cases {
            let plan = crate::draw::draw(seed, number);
            let comparison = compare_hosts(&plan, law, guest, COMPILED, &mut workspace);
            self.exact += u64::from(!matches!(comparison.outcome, Outcome::Differs { .. }));
            self.whole += u64::from(comparison.outcome == Outcome::Same);
            self.smaller += u64::from(comparison.outcome == Outcome::Outside(Limit::BeyondGuest));
        }
    }
}

/// Removes everything that loses a packet: the drawn losses, and the end of the queue.
fn without_losses(mut plan: Plan) -> Plan {
    plan.data.lost.clear();
    plan.data.queue_packets = 0;
    plan
}

/// Measures all rows, each with `cases` random cases and flows.
pub fn rows(seed: u64, cases: u64) -> Vec<Row> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ROWS)
            .map(|number| scope.spawn(move || row(seed, cases, number)))
            .collect();
        // a thread that panicked has printed the reason
        let rows = threads.into_iter().map(|thread| thread.join().ok());
        rows.flatten().collect()
    })
}

/// Formats rows of the same number of cases as a table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let cases = rows.first().map_or(0, |row| row.cases);
    let mut text = format!(
        "| law f, guest g | random cases, n = {cases}: exact (to their end; until g's own window is the smaller) | \
         marks alone, n = {cases}: identical; rate g∘T/f, median (5 % to 95 %) | \
         marks and losses, n = {cases}: identical; rate g∘T/f |\n|---|---|---|---|\n"
    );
    for row in rows {
        // writing to a String cannot fail
        let _ = writeln!(
            text,
            "| `{}`, {} | {} ({}; {}) | {}; {} | {}; {} |",
            row.law,
            row.guest,
            row.exact,
            row.whole,
            row.smaller,
            row.marks.identical,
            row.marks.rate(),
            row.losses.identical,
            row.losses.rate(),
        );
    }
    text
}
