//! Which TCP sender a law's shadow imitates.

use serde::{Deserialize, Serialize};
use uc_core::consts;
use uc_core::law::{Word, profiles};

/// The TCP sender that the law's shadow imitates.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// RFC 5681 and RFC 6582, in bytes; under a guard slow start counts bytes as RFC 3465 does.
    Rfc,
    /// As a Linux neighbour does it: whole packets, no growth while the window is being reduced.
    #[default]
    Linux,
}

impl Profile {
    /// Returns the names of the profiles, with their meanings; the index of a name is the profile's number.
    pub fn words() -> Vec<Word> {
        profiles()
    }

    /// Returns the profile with this name; `None` if there is no such profile.
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
