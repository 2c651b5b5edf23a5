//! The last good policy of the fleet, kept for the time when the agent starts and etcd is away.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uc_client::{AgentError, guarded};
use uc_policy::trusted;

/// Of a policy of whatever length, for JSON takes up to six bytes for one; and of its key.
const KEPT_MAX_BYTES: u64 = 8 * trusted::TEXT_MAX_BYTES;

/// A policy that was in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The key that it came from. Another key's is no use.
    pub key: String,
    /// Etcd's revision of it.
    pub revision: i64,
    /// The document.
    pub text: String,
}

impl Kept {
    /// What was kept of this key; none where that can't be had or trusted, and why.
    pub fn read(path: &Path, key: &str) -> (Option<Self>, Option<String>) {
        if !path.exists() {
            return (None, None);
        }
        let text = match trusted::read_most(path, KEPT_MAX_BYTES) {
            Ok(text) => text,
            Err(error) => return (None, Some(error.to_string())),
        };
        match serde_json::from_str::<Self>(&text) {
            Ok(kept) if kept.key == key => (Some(kept), None),
            Ok(_) => (None, None),
            Err(error) => (None, Some(format!("{}: {error}", path.display()))),
        }
    }

    /// Keeps it.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, path: &Path) -> Result<(), AgentError> {
        let text = serde_json::to_string(self)
            .map_err(|error| AgentError::io("write the policy down", error))?;
        guarded::write(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_again_by_its_own_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        assert_eq!(Kept::read(&path, "/a"), (None, None));
        let kept = Kept {
            key: "/a".to_owned(),
            revision: 7,
            text: "[defaults]\nlaw = \"ecn\"\n".to_owned(),
        };
        kept.write(&path).unwrap();
        assert_eq!(Kept::read(&path, "/a"), (Some(kept), None));
        assert_eq!(Kept::read(&path, "/b"), (None, None));
        guarded::write(&path, "{").unwrap();
        let (none, why) = Kept::read(&path, "/a");
        assert!(none.is_none() && why.unwrap().contains("policy.json"));
    }

    #[test]
    fn what_may_be_read_from_etcd_may_be_read_again_whatever_json_makes_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        for character in ["#", "\"", "\n", "\u{1}"] {
            let kept = Kept {
                key: "/a".to_owned(),
                revision: 7,
                text: character.repeat(trusted::TEXT_MAX_BYTES as usize),
            };
            kept.write(&path).unwrap();
            let (read, why) = Kept::read(&path, "/a");
            assert!(
                read == Some(kept) && why.is_none(),
                "{character:?}: {why:?}"
            );
        }
    }
}
