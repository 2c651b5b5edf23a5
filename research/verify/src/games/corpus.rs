//! The corpus: a line of text for each plan that has once gained, or has come closest to a gain.

use uc_core::{Law, consts};

use crate::games::judge::Arena;
use crate::games::network::Network;
use crate::games::plan::Plan;
use crate::games::port::Guard;

/// The profiles of laws, with their names.
pub const PROFILES: [(&str, u32); 2] = [
    ("linux", consts::PROFILE_LINUX),
    ("rfc", consts::PROFILE_RFC),
];
/// The guards against which plans are searched for, with their names.
pub const GUARDS: [(&str, Guard); 2] = [("strict", Guard::Strict), ("guard", Guard::One)];

const TEXT: &str = include_str!("corpus.txt");

/// A plan with the network in which it was found.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Law at the ports of all guests.
    pub law: Law,
    /// The network in which the plan was found.
    pub network: Network,
    /// Guard at the ports of all guests.
    pub guard: Guard,
    /// Plan of the adversary's tricks.
    pub plan: Plan,
}

impl Entry {
    /// Reads a line: law, profile, guard, the network's name, and the plan; `None`: the line has another form.
    fn parse(line: &str) -> Option<Entry> {
        let mut words = line.splitn(5, ' ');
        let law = Law::named(words.next()?)?;
        let named = |name: &str, word: &str| name == word;
        let word = words.next()?;
        let profile = PROFILES.iter().find(|row| named(row.0, word))?.1;
        let word = words.next()?;
        let guard = GUARDS.iter().find(|row| named(row.0, word))?.1;
        let network = Network::named(law, words.next()?)?;
        Some(Entry {
            law,
            network: network.with_profile(profile),
            guard,
            plan: words.next()?.parse().ok()?,
        })
    }

    /// Returns the games of the entry's network.
    #[must_use]
    pub fn arena(&self) -> Arena {
        Arena::new(self.network, self.guard)
    }
}

/// Returns the entries of the corpus.
///
/// # Panics
/// If a line is no entry.
#[must_use]
pub fn entries() -> Vec<Entry> {
    let lines = TEXT.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| Entry::parse(line).unwrap_or_else(|| panic!("corpus.txt: no plan: {line}")))
        .collect()
}
