//! The fleet's last valid policy, stored for a start of the agent without etcd.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uc_client::AgentError;
use uc_words::fnv::fnv1a;

/// Maximum length of the file in bytes: JSON may need six bytes for one byte of the policy's text, and the key needs
/// some.
pub const KEPT_MAX_BYTES: u64 = 8 * uc_files::TEXT_MAX_BYTES;

/// A policy of etcd that was in force, as the agent stores it for its next start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The etcd key that the policy came from. A copy from another key is not used.
    pub key: String,
    /// Revision of the policy's key in etcd.
    pub revision: i64,
    /// The policy's TOML document.
    pub text: String,
}

/// Returns the checksum by which the hosts of a fleet compare their policies.
pub fn hash_of(text: &str) -> String {
    format!("{:016x}", fnv1a(text.as_bytes()))
}

impl Kept {
    /// Returns the checksum of the policy's text.
    pub fn hash(&self) -> String {
        hash_of(&self.text)
    }

    /// Reads the stored policy of this key, and the reason why the file can't be used. Policy and reason are both
    /// `None` if there is no file, or its policy is of another key.
    pub fn read(path: &Path, key: &str) -> (Option<Self>, Option<String>) {
        if !path.exists() {
            return (None, None);
        }
        let text = match uc_files::read_most(path, KEPT_MAX_BYTES) {
            Ok(text) => text,
            Err(error) => return (None, Some(error.to_string())),
        };
        match serde_json::from_str::<Self>(&text) {
            Ok(kept) if kept.key == key => (Some(kept), None),
            Ok(_) => (None, None),
            Err(error) => (None, Some(format!("{}: {error}", path.display()))),
        }
    }

    /// Writes the policy to the file.
    pub fn write(&self, path: &Path) -> Result<(), AgentError> {
        let text = serde_json::to_string(self)
            .map_err(|error| AgentError::io("format the policy as JSON", error))?;
        Ok(uc_files::write(path, &text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_policy_is_found_by_its_own_key_only() {
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
        uc_files::write(&path, "{").unwrap();
        let (none, why) = Kept::read(&path, "/a");
        assert!(none.is_none() && why.unwrap().contains("policy.json"));
    }

    #[test]
    fn the_longest_policy_can_be_stored_whatever_its_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        for character in ["#", "\"", "\n", "\u{1}"] {
            let kept = Kept {
                key: "/a".to_owned(),
                revision: 7,
                text: character.repeat(uc_files::TEXT_MAX_BYTES as usize),
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
