//! An adversary that searches gains nothing against strict ports within some plans, and its neighbours
//! lose nothing; `make games` searches for hours.

use std::path::Path;

use uc_core::{Law, consts};
use uc_verify::games::corpus::{self, PROFILES};
use uc_verify::games::game::Virtual;
use uc_verify::games::table::table;
use uc_verify::games::{Campaign, Guard, Network, Plan, Timed, Trick, play, play_on};

fn laws() -> impl Iterator<Item = Law> {
    Law::inside().filter(|&law| law != Law::PASS)
}

#[test]
fn searching_adversary_gains_nothing_from_strict_ports_of_any_law() {
    for law in laws() {
        for (name, profile) in PROFILES {
            let campaign = Campaign::new(law, profile, Guard::Strict, 1);
            for mut chain in [campaign.chain(0), campaign.chain(1)] {
                for _ in 0..30 {
                    let found = chain.next_plan();
                    assert!(found.is_none(), "law {}, {name}: {found:?}", law.name());
                }
            }
        }
    }
}

#[test]
fn honest_guest_that_moves_to_other_hosts_sends_as_one_that_stays() {
    let moving = Plan {
        tricks: vec![Timed::always(Trick::Move(1 << 20, 7), 1_000)],
        ..Plan::honest()
    };
    for law in laws() {
        let network = Network::draw(law, 1);
        let mut ports = Virtual::new(&network, Guard::Strict);
        let moves = play_on(&mut ports, &moving, &network, 1);
        let stays = play(&Plan::honest(), &network, Guard::Strict, 1);
        assert_eq!((moves, ports.moves), (stays, 16), "law {}", law.name());
    }
}

#[test]
fn plans_of_the_corpus_gain_nothing() {
    for entry in corpus::entries() {
        let standing = entry.arena().judge(&entry.plan);
        println!("{}: {standing:?}", entry.law.name());
        assert!(standing.holds(), "{standing:?}: {entry:?}");
    }
}

#[test]
fn guest_that_ignores_windows_starves_neighbours_of_unguarded_ports() {
    let flood = Plan {
        tricks: vec![Timed::always(Trick::Flood(150), 1)],
        ..Plan::honest()
    };
    let campaign = Campaign::new(Law::ECN, consts::PROFILE_LINUX, Guard::None, 1);
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
