//! What an agent is asked on its socket, and what it answers.

use serde::{Deserialize, Serialize};

/// Which ports are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Their interfaces' names.
    #[serde(default)]
    pub ports: Vec<String>,
    /// All, and then none is named: a list that came out empty means nobody.
    #[serde(default)]
    pub all: bool,
}

/// What a change came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The ports that changed.
    pub ports: Vec<String>,
}

/// Why not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// In words.
    pub error: String,
}
