//! Finds the port programs, for processes that do other work at the same ports.

use std::sync::Arc;

use crate::error::PortError;
use crate::programs::Programs;
use crate::store::Store;

/// Where a process finds the port programs of the ports at which it works.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// The host's pinned programs; another version may replace them.
    #[default]
    Pins,
    /// Programs that this process has loaded itself, and that are pinned nowhere.
    Own(Arc<Programs>),
}

impl Source {
    /// Returns the programs as they are now; `None`: nothing is pinned.
    ///
    /// # Errors
    /// The kernel's refusal; pins of another version.
    pub fn programs(&self) -> Result<Option<Arc<Programs>>, PortError> {
        match self {
            Source::Pins => Ok(Store::default().open()?.map(Arc::new)),
            Source::Own(programs) => Ok(Some(Arc::clone(programs))),
        }
    }
}
