//! A valid policy with its text, and where it came from.

use uc_client::state::PolicySource;
use uc_policy::Policy;

use crate::stored_policy::hash_of;

/// A valid policy.
#[derive(Clone, Debug)]
pub struct Valid {
    /// The parsed text.
    pub policy: Policy,
    /// The TOML document.
    pub text: String,
    /// The checksum of the text.
    pub hash: String,
}

impl Valid {
    /// Joins a policy and the text that it was parsed from, and computes the checksum.
    pub fn new(policy: Policy, text: String) -> Self {
        Self {
            policy,
            hash: hash_of(&text),
            text,
        }
    }
}

/// Where a policy came from.
#[derive(Debug)]
pub struct Origin {
    /// The file, etcd, or the copy of etcd's on disk.
    pub source: PolicySource,
    /// Path of the file, or key in etcd.
    pub place: String,
    /// Revision of the key in etcd.
    pub revision: Option<i64>,
}

impl Origin {
    /// Returns the place, and the revision if there is one, as messages name them.
    pub fn name(&self) -> String {
        match self.revision {
            Some(revision) => format!("{}@{revision}", self.place),
            None => self.place.clone(),
        }
    }
}
