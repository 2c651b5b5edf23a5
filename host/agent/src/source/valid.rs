//! A valid policy with its text, and where it came from.

use uc_client::state::PolicySource;
use uc_policy::Policy;

use crate::stored_policy::hash_of;

/// A policy that was read and is valid.
#[derive(Clone, Debug)]
pub struct Valid {
    /// The policy as it was parsed from `text`.
    pub policy: Policy,
    /// The policy's TOML document.
    pub text: String,
    /// Checksum of the TOML document.
    pub hash: String,
}

impl Valid {
    /// Creates a valid policy from a policy and the text that it was parsed from, and computes the checksum.
    pub fn new(policy: Policy, text: String) -> Self {
        Self {
            policy,
            hash: hash_of(&text),
            text,
        }
    }
}

/// The file or etcd key from which a policy came.
#[derive(Debug)]
pub struct Origin {
    /// Whether the policy came from the file, from etcd, or from the stored copy of etcd's policy.
    pub source: PolicySource,
    /// Path of the file, or key in etcd.
    pub place: String,
    /// Revision of the policy's key in etcd; `None` for a file.
    pub revision: Option<i64>,
}

impl Origin {
    /// Returns the path or key, with the revision if there is one, for messages.
    pub fn name(&self) -> String {
        match self.revision {
            Some(revision) => format!("{}@{revision}", self.place),
            None => self.place.clone(),
        }
    }
}
