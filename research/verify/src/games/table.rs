//! What each trick gains alone, by what the operator has set against it.

use std::fmt::Write as _;

use uc_core::{Law, consts};

use crate::games::TICKS;
use crate::games::judge::Arena;
use crate::games::network::Network;
use crate::games::plan::{Plan, Timed};
use crate::games::port::Guard;
use crate::games::trick::{Disguise, Greeting, Trick};

/// Number of networks of the table, and of games in each.
const NETWORKS: u64 = 3;
const GAMES: u64 = 8;
/// A trick that keeps more segments in flight than the path of any network of the table holds.
const FAR: Trick = Trick::Flood(150);

fn plan(greeting: Greeting, tricks: &[(Trick, u64)]) -> Plan {
    let tricks = tricks
        .iter()
        .map(|&(trick, every)| Timed::always(trick, every));
    Plan {
        greeting,
        tricks: tricks.collect(),
    }
}

/// Returns the rows of the table: what the guest does, and the plan.
fn rows() -> Vec<(&'static str, Plan)> {
    let greets = |greeting| plan(greeting, &[(FAR, 1)]);
    let does = |tricks: &[(Trick, u64)]| plan(Greeting::Plain, tricks);
    let with_overrun = |trick, every| plan(Greeting::Plain, &[(trick, every), (FAR, 1)]);
    let signals = (consts::ECE | consts::CWR) as u8;
    let mut pauses = does(&[(FAR, 1)]);
    pauses.tricks.extend((0..4).map(|nth| Timed {
        from: 4_000 * nth + 1_000,
        until: 4_000 * nth + 3_500,
        ..Timed::always(Trick::Silent, 1)
    }));
    let mut grows = does(&[]);
    grows.tricks.push(Timed {
        until: TICKS / 2,
        ..Timed::always(Trick::Small(200), 1)
    });
    vec![
        ("nothing: an honest guest", Plan::honest()),
        (
            "sends one segment beyond its windows",
            does(&[(Trick::Overrun(1), 1)]),
        ),
        (
            "keeps 150 segments in flight, whatever its windows",
            does(&[(FAR, 1)]),
        ),
        ("… after pauses of 250 ms", pauses),
        (
            "… and retransmits as if data were lost",
            with_overrun(Trick::Repeat(0), 64),
        ),
        (
            "… and acknowledges what its peer has not sent",
            with_overrun(Trick::FalseAcks(1 << 29), 1),
        ),
        (
            "… and sets ECT, ECE and CWR itself",
            with_overrun(Trick::Signals(signals, 2), 1),
        ),
        (
            "… and sends frames of 62,264 bytes",
            with_overrun(Trick::Giant(62_264, 62_264), 64),
        ),
        (
            "… and sends SYNs that die behind its port",
            with_overrun(Trick::Syn(1 << 20, true), 16),
        ),
        (
            "… and sends SYN-ACKs that die behind its port",
            with_overrun(Trick::SynAck(1 << 20, 5, true), 16),
        ),
        (
            "… and sends RSTs that die behind its port",
            with_overrun(Trick::Reset(0), 16),
        ),
        (
            "… and sends FINs that die behind its port",
            with_overrun(Trick::Fin(0), 16),
        ),
        (
            "… and moves to another host",
            with_overrun(Trick::Move(1 << 20, 1), 256),
        ),
        (
            "… after SYNs that die behind its port",
            greets(Greeting::Decoys(4)),
        ),
        ("… after offering ECN", greets(Greeting::Ecn)),
        ("… after offering Accurate ECN", greets(Greeting::Accurate)),
        (
            "… after offering Multipath TCP",
            greets(Greeting::Multipath),
        ),
        (
            "… after offering no window scale",
            greets(Greeting::Unscaled),
        ),
        (
            "… in IP fragments",
            with_overrun(Trick::Hidden(Disguise::Fragment), 1),
        ),
        (
            "… behind IPv6 extension headers",
            with_overrun(Trick::Hidden(Disguise::Extension), 1),
        ),
        (
            "… behind headers that contradict their lengths",
            with_overrun(Trick::Hidden(Disguise::Malformed), 1),
        ),
        (
            "sends data that die behind its port",
            does(&[(Trick::Ghosts(8), 64)]),
        ),
        ("sends segments of 200 bytes, then full ones", grows),
    ]
}

/// Returns the table of a law as text: for each trick the adversary's goodput, and in parentheses its
/// neighbours', as multiples of those with an honest guest.
#[must_use]
pub fn table(law: Law) -> String {
    let guards = [Guard::None, Guard::One, Guard::Strict];
    let mut text = format!(
        "law {}: goodput of a guest ÷ an honest guest's (its neighbours' ÷ theirs), {} games\n",
        law.name(),
        NETWORKS * GAMES
    );
    let _ = writeln!(
        text,
        "{:<52}{:>15}{:>15}{:>15}",
        "the guest", "no guard", "guard 1", "strict"
    );
    let mut arenas: Vec<Vec<Arena>> = guards
        .iter()
        .map(|&guard| {
            let network = |seed| Arena::new(Network::draw(law, seed), guard);
            (1..=NETWORKS).map(network).collect()
        })
        .collect();
    for (name, plan) in rows() {
        let _ = write!(text, "{name:<52}");
        for arenas in &mut arenas {
            let standings = arenas.iter_mut().map(|arena| arena.mean(&plan, 1..=GAMES));
            let (gain, left) = standings.fold((0.0, 0.0), |(gain, left), one| {
                (gain + one.gain, left + one.left)
            });
            let share = |sum: f64| sum / NETWORKS as f64;
            let cell = format!("{:.2} ({:.2})", share(gain), share(left));
            let _ = write!(text, "{cell:>15}");
        }
        text.push('\n');
    }
    text
}
