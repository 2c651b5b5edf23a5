//! Requests that change something, as an agent gets them on its socket, and its answers.

use serde::{Deserialize, Serialize};

/// The ports of a request: named ones, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Names of interfaces.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Means every port, and then `ports` is empty. An empty list by itself means nothing, so a request
    /// whose list came out empty is refused.
    #[serde(default)]
    pub all: bool,
}

/// A request to put a policy into force that was refused until an operator confirms it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    /// The policy's checksum, as the refusal names it.
    pub policy: String,
}

/// The answer to a change that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Names of the ports that changed.
    pub ports: Vec<String>,
}

/// The answer to a request that was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, in one line.
    pub error: String,
}
