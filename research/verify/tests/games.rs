//! A random adversary gains nothing against strict ports, and its neighbours lose nothing;
//! `make games` plays 10,000 plans for each law.

use std::path::Path;

use uc_core::Law;
use uc_verify::games::table::table;
use uc_verify::games::{Campaign, Guard, Plan, Timed, Trick, play};

fn laws() -> impl Iterator<Item = Law> {
    Law::inside().filter(|&law| law != Law::PASS)
}

#[test]
fn random_adversary_gains_nothing_from_strict_ports_of_any_law() {
    for law in laws() {
        let campaign = Campaign {
            law,
            guard: Guard::Strict,
            seed: 1,
        };
        for number in 0..3 {
            let mut chain = campaign.chain(number);
            for _ in 0..20 {
                let (plan, standing) = chain.next_plan();
                assert!(
                    standing.holds(),
                    "law {}, chain {number}: {standing:?}: {plan}",
                    law.name()
                );
            }
        }
    }
}

#[test]
fn guest_that_ignores_windows_starves_neighbours_of_unguarded_ports() {
    let flood = Plan {
        tricks: vec![Timed {
            trick: Trick::Flood(150),
            from: 0,
            until: uc_verify::games::TICKS,
            every: 1,
        }],
        ..Plan::honest()
    };
    let campaign = Campaign {
        law: Law::ECN,
        guard: Guard::None,
        seed: 1,
    };
    let chain = campaign.chain(0);
    let honest = play(&Plan::honest(), chain.network(), Guard::None, 1);
    let free = play(&flood, chain.network(), Guard::None, 1);
    assert!(free.first > honest.first * 3 / 2, "{free:?} {honest:?}");
    assert!(
        free.neighbours < honest.neighbours / 2,
        "{free:?} {honest:?}"
    );
}

/// With `UC_ACCEPT=1` the table becomes the record.
#[test]
fn table_of_tricks_equals_the_record() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tricks.txt");
    let table = table(Law::ECN);
    if std::env::var("UC_ACCEPT").is_ok() {
        std::fs::write(&file, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(table, recorded, "{}: UC_ACCEPT=1 accepts", file.display());
}
