//! Laws from outside the tree: the cores with them that this process has loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use uc_core::{Core, LIBRARY, Law};
use uc_words::fnv::fnv1a;

/// Laws from outside the tree, as `uc law build` built them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Laws {
    /// Path of the laws' folder, as it was given.
    pub folder: String,
    /// Hash of the core that was built with these laws.
    pub hash: String,
}

/// A core with laws of your own that this process has loaded.
struct Loaded {
    core: Core,
    /// Content of the core's file, for workers on other machines.
    bytes: Arc<[u8]>,
}

/// The cores that this process has loaded, by their hash. They stay loaded until the process ends.
static LOADED: Mutex<BTreeMap<String, Loaded>> = Mutex::new(BTreeMap::new());

impl Laws {
    /// Loads the core that `uc law build` built in a folder, and makes its laws known by name.
    ///
    /// # Errors
    /// Why it can't be read or loaded; or that this process has other laws under their numbers.
    pub fn read(folder: &Path) -> Result<Laws> {
        let path = folder.join(LIBRARY);
        let bytes = fs::read(&path).map_err(|error| {
            let path = path.display();
            anyhow!(
                "could not read {path}: {error}; `uc law build` makes it, and --laws names the folder"
            )
        })?;
        let laws = Laws {
            folder: folder.display().to_string(),
            hash: hash(&bytes),
        };
        laws.load(bytes)?;
        Ok(laws)
    }

    /// Loads the core with these laws from the bytes of its file, which another process read.
    ///
    /// # Errors
    /// As [`Laws::read`], and for another core.
    pub fn load(&self, bytes: Vec<u8>) -> Result<()> {
        let path = self.path();
        if hash(&bytes) != self.hash {
            let (path, own) = (path.display(), hash(&bytes));
            bail!(
                "{path}: expected the library of laws with hash {}, found {own}; build the laws \
                 again, or name their folder",
                self.hash
            );
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.contains_key(&self.hash) {
            return Ok(());
        }
        let core = Core::of_library(&bytes, &path)?;
        let rows = core.laws();
        if let Some((new, known)) = Law::conflict(&rows) {
            bail!(
                "{}: law {} has number {}, which this process already uses for a different law \
                 {}; run the \
                 experiment in a new process",
                self.folder,
                new.name,
                known.number,
                known.name
            );
        }
        Law::tell_outside(&rows);
        let bytes = bytes.into();
        loaded.insert(self.hash.clone(), Loaded { core, bytes });
        Ok(())
    }

    /// Returns the core with these laws; reads it from their folder if this process has not loaded it.
    ///
    /// # Errors
    /// As [`Laws::read`]; or the laws in the folder were built again since.
    pub fn core(&self) -> Result<Core> {
        self.loaded(|loaded| loaded.core)
    }

    /// Returns the bytes of the core's file, for [`Laws::load`] in another process.
    ///
    /// # Errors
    /// As [`Laws::core`].
    pub fn bytes(&self) -> Result<Arc<[u8]>> {
        self.loaded(|loaded| Arc::clone(&loaded.bytes))
    }

    fn loaded<T>(&self, of: impl Fn(&Loaded) -> T) -> Result<T> {
        let known = || {
            let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.get(&self.hash).map(&of)
        };
        if let Some(known) = known() {
            return Ok(known);
        }
        let found = Laws::read(Path::new(&self.folder))?;
        known().with_context(|| {
            format!(
                "{}: the laws were built again after the runs: their hash is {}, that of the runs \
                 {}; make the \
                 runs again, or name the folder with the earlier build by --laws",
                self.folder, found.hash, self.hash
            )
        })
    }

    fn path(&self) -> PathBuf {
        Path::new(&self.folder).join(LIBRARY)
    }
}

fn hash(bytes: &[u8]) -> String {
    format!("{:016x}", fnv1a(bytes))
}
