//! The key of a flow at a port, as the programs' maps have it.

use zerocopy::IntoBytes;

use crate::layout::uc_key;

/// A flow, from its guest's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(uc_key);

impl From<uc_key> for Flow {
    fn from(key: uc_key) -> Self {
        Self(key)
    }
}

impl Flow {
    /// Returns the key as the maps have it.
    pub fn key(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
