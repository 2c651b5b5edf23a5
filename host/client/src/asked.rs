//! Requests that change something, as an agent gets them on its socket, and its answers.

use serde::{Deserialize, Serialize};

/// The ports of a request: named ones, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Names of the interfaces that the request is about.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Whether the request means every port; `ports` is then empty. A request without `all` and with an empty list
    /// names no port and is refused.
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

/// The agent's answer to a request whose change it has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Names of the ports that the request changed.
    pub ports: Vec<String>,
}

/// The answer to a request that was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Why the agent refused the request, in one line.
    pub error: String,
}
