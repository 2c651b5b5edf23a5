//! How literally a law is emulated.

use serde::{Deserialize, Serialize};
use uc_core::consts;
use uc_core::law::{Word, profiles};

/// How literally a law is emulated.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// RFC 5681 and 6582 to the letter, in bytes.
    Rfc,
    /// As a Linux neighbour does it: whole packets, no growth while the window is being reduced.
    #[default]
    Linux,
}

impl Profile {
    /// Returns the profiles' names with what they mean; a name's place is its number.
    pub fn words() -> Vec<Word> {
        profiles()
    }

    /// Returns the profile of that name; none if there is no such profile.
    pub fn named(name: &str) -> Option<Profile> {
        let all = [Profile::Linux, Profile::Rfc];
        all.into_iter().find(|profile| profile.name() == name)
    }

    /// Returns the name in files and on the command line.
    pub fn name(self) -> &'static str {
        let words = profiles();
        words
            .get(self.number() as usize)
            .map_or("unknown", |word| word.word)
    }

    /// Returns the profile's number in a policy.
    pub fn number(self) -> u32 {
        match self {
            Profile::Rfc => consts::PROFILE_RFC,
            Profile::Linux => consts::PROFILE_LINUX,
        }
    }
}
