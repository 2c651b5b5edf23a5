//! Each law f with a native twin over each guest's TCP g that `uc-tcp` has: where g∘T sends exactly
//! what f sends, and what f costs where it does not.
//!
//! T only lowers windows. So every guest is exact until its own window is the smaller one, and the
//! price is by how much its own congestion control undercuts f's window.

use std::fmt::Write;

use uc_core::Compiled;
use uc_tcp::CongestionControl;

use crate::bottleneck::{INITIAL_WINDOW_SEGMENTS, Ratios, Senders, Writes, draw};
use crate::compare::{Limit, Outcome, Workspace, compare_hosts};
use crate::law::{Law, guest_hosts, native_hosts, rfc_policy};
use crate::plan::Plan;
use crate::world::Hosts;

/// The guests' congestion controls, by their labels in the table. The guest `DCTCP` requests ECN,
/// and T strips its offer; the others have no ECN.
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

/// The laws with a native twin, by their names.
const LAWS: [(&str, Law); 2] = [("ecn", Law::Ecn), ("dctcp", Law::Dctcp)];

/// One cell: a law over a guest.
#[derive(Clone, Debug)]
struct Cell {
    /// Random cases without a difference; next lines, those of them that ran to their end, and
    /// those that ended at the guest's own, smaller window.
    exact: u64,
    whole: u64,
    smaller: u64,
    /// Results over bottlenecks that only mark; next line, that also lose packets.
    marks: Ratios,
    losses: Ratios,
}

impl Cell {
    fn measured(seed: u64, cases: u64, law: Law, tcp: CongestionControl) -> Cell {
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
        let mut cell = Cell {
            exact: 0,
            whole: 0,
            smaller: 0,
            marks: Ratios::measured(senders, plans().map(without_losses)),
            losses: Ratios::measured(senders, plans()),
        };
        cell.compare(seed, cases, law, (&g, strips_ecn));
        cell
    }

    /// Compares segment by segment on the random cases of the theorems.
    fn compare(&mut self, seed: u64, cases: u64, law: Law, guest: (&Hosts, bool)) {
        let mut workspace = Workspace::default();
        for number in 0..cases {
            let plan = crate::draw::draw(seed, number);
            let comparison = compare_hosts(&plan, law, guest, &Compiled, &mut workspace);
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

/// Returns the table of docs/theorems.md, as Markdown: `cases` random cases, and as many flows, for
/// each law and guest.
pub fn table(seed: u64, cases: u64) -> String {
    let mut text = format!(
        "| law f, guest g | random cases, n = {cases}: exact (to their end; until g's own window is the smaller) | \
         marks alone, n = {cases}: identical; rate g∘T/f, median (5 % to 95 %) | \
         marks and losses, n = {cases}: identical; rate g∘T/f |\n|---|---|---|---|\n"
    );
    let pairs: Vec<_> = LAWS
        .into_iter()
        .flat_map(|law| GUESTS.into_iter().map(move |guest| (law, guest)))
        .collect();
    let cells: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .iter()
            .map(|&((_, law), (_, tcp))| scope.spawn(move || Cell::measured(seed, cases, law, tcp)))
            .collect();
        // a thread that panicked has printed the reason
        threads
            .into_iter()
            .map(|thread| thread.join().ok())
            .collect()
    });
    for (&((law, _), (guest, _)), cell) in pairs.iter().zip(&cells) {
        let Some(cell) = cell else { continue };
        // writing to a String cannot fail
        let _ = writeln!(
            text,
            "| `{law}`, {guest} | {} ({}; {}) | {}; {} | {}; {} |",
            cell.exact,
            cell.whole,
            cell.smaller,
            cell.marks.identical,
            cell.marks.rate(),
            cell.losses.identical,
            cell.losses.rate(),
        );
    }
    text
}
